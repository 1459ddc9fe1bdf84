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
