from __future__ import annotations

import pytest

from penstock.ingest.mysql.charsets import charset_named, charset_of_collation


@pytest.mark.parametrize(
    ("collation", "name"),
    [
        (255, "utf8mb4"),
        (33, "utf8mb3"),
        (8, "latin1"),
        (63, "binary"),
        (28, "gbk"),
        (1032, "latin1"),
        (2304, "utf8mb4"),
    ],
)
def test_collation_numbers_of_both_servers_name_their_character_set(collation: int, name: str) -> None:
    charset = charset_of_collation(collation)
    assert charset is not None
    assert charset.name == name


def test_an_unknown_collation_is_none() -> None:
    assert charset_of_collation(1000) is None
    assert charset_of_collation(9999) is None


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("latin1", b"caf\xe9 \x80 \x81", "café € \x81"),  # Windows' code page, its holes as control characters
        ("gbk", b"\xba\xba\xd7\xd6", "汉字"),
        ("utf16", b"\xd8\x3d\xde\x00", "😀"),
        ("ucs2", b"\x4e\x2d", "中"),
        ("sjis", b"\x81\x5f\x83\x5c", "\\ソ"),
        ("swe7", b"[\\]", "ÄÖÅ"),
        ("dec8", b"\xd7\xa8", "Œ¤"),
        ("keybcs2", b"\x80\x9b", "ČŠ"),
        ("cp1251", b"\xcf\x98", "П?"),
        ("utf8", "中".encode(), "中"),
    ],
)
def test_bytes_read_as_the_server_converts_them(charset: str, raw: bytes, text: str) -> None:
    known = charset_named(charset)
    assert known is not None
    assert known.decode(raw) == text
