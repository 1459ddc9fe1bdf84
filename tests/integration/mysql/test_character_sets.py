"""Every code of every character set: the text decoded from the binlog is the one that the server converts it to."""

from __future__ import annotations

from penstock.ingest.mysql.server.charsets import CHARSETS
from tests.integration.mysql.playground import Playground

# Their characters are all valid in Python's codecs, or have more than two bytes.
LEFT_OUT = {"binary", "utf8mb4", "utf8mb3", "ucs2", "utf16", "utf16le", "utf32", "ascii"}
# The server takes a zero byte and half a character for a character of two bytes.
HALVES = {"eucjpms"}
# Characters that the server has under one of their two codes only.
TWICE = {"big5": {b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce"}}


def test_every_code_is_the_text_that_the_server_converts_it_to(server: Playground) -> None:
    codes = [bytes([first]) for first in range(1, 256)]
    codes += [bytes([first, second]) for first in range(0x81, 256) for second in range(0x40, 256)]
    server.run("SET SESSION sql_log_bin = 0", "CREATE TABLE codes (code VARBINARY(2) PRIMARY KEY)")
    for start in range(0, len(codes), 4000):
        some = ",".join(f"(X'{code.hex()}')" for code in codes[start : start + 4000])
        server.run(f"INSERT INTO codes VALUES {some}")
    server.run("SET SESSION sql_log_bin = 1")
    known = {str(row[0]) for row in server.rows("SHOW CHARACTER SET")}
    wrong = {}
    for name in (CHARSETS.keys() & known) - LEFT_OUT - HALVES:
        width = min(CHARSETS[name].bytes_per_character, 2)
        converted = server.rows(
            f"SELECT code, HEX(CONVERT(CONVERT(code USING {name}) USING utf8mb4)), HEX(CONVERT(code USING {name}))"
            f" FROM codes WHERE LENGTH(code) <= {width}"
        )
        for code, text, same in converted:
            # The server has no text for codes that it does not store.
            if text is None or same != code.hex().upper() or code in TWICE.get(name, ()):
                continue
            if CHARSETS[name].decode(code).encode() != bytes.fromhex(text):
                wrong[name, code] = CHARSETS[name].decode(code), bytes.fromhex(text)
    assert wrong == {}


# Of GB 18030: what is before and behind the last characters of the basic and of all planes, and some of the others.
_LEADS = (0x81, 0x82, 0x84, 0x85, 0x90, 0xE3, 0xE4, 0xFD)


def test_longer_codes_are_the_texts_that_the_server_converts_them_to(server: Playground) -> None:
    japanese = [bytes([0x8F, a, b]) for a in range(0xA1, 255) for b in range(0xA1, 255)]
    long = {
        "ujis": japanese,
        "eucjpms": japanese,
        "gb18030": [
            bytes([a, b, c, d])
            for a in _LEADS
            for b in range(0x30, 0x3A)
            for c in (*range(0x81, 0xFF, 9), 0x9A, 0xA4, 0xA5)
            for d in range(0x30, 0x3A)
        ],
    }
    known = {str(row[0]) for row in server.rows("SHOW CHARACTER SET")}
    for name in long.keys() & known:
        server.run("SET SESSION sql_log_bin = 0", "CREATE TABLE codes (code VARBINARY(4) PRIMARY KEY)")
        for start in range(0, len(long[name]), 4000):
            some = ",".join(f"(X'{code.hex()}')" for code in sorted({*long[name]})[start : start + 4000])
            if some:
                server.run(f"INSERT INTO codes VALUES {some}")
        wrong = {
            code.hex(): text
            for code, text, same in server.rows(
                f"SELECT code, HEX(CONVERT(CONVERT(code USING {name}) USING utf8mb4)), HEX(CONVERT(code USING {name})) "
                "FROM codes"
            )
            if text is not None and same == code.hex().upper()
            if CHARSETS[name].decode(b"a" + code + b"b").encode() != b"a" + bytes.fromhex(text) + b"b"
        }
        server.run("DROP TABLE codes", "SET SESSION sql_log_bin = 1")
        assert wrong == {}, name
