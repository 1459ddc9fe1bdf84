from __future__ import annotations

import pytest

from penstock.ingest.mysql.server.charsets import CHARSETS, charset_named, charset_of_collation


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
def test_collation_numbers_of_both_servers_have_character_sets(collation: int, name: str) -> None:
    charset = charset_of_collation(collation)
    assert charset is not None
    assert charset.name == name


def test_an_unknown_collation_has_no_charset() -> None:
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
        ("eucjpms", b"\xad\xa1\xad\xfca\xa4\xa2\x8f\xf4\xfe\x8f\xf3\xf3", "①∪aあ黑ⅰ"),
        ("eucjpms", b"\xf5\xa1\x8f\xfe\xfe\xad\xdd\x8f\xa2\xc3", "\ue000\ue757?￤"),
        ("ujis", b"\xf5\xa1\xad\xa1", "\ue000?"),
        ("big5", b"\xf9\xd6\xf9\xdc", "碁嫺"),
        ("big5", b"a\xa3\xc0b", "a?b"),
        ("gbk", b"\xa1\x40\xba\xba", "?汉"),
        ("sjis", b"\x81\xad\x83\x5c", "?ソ"),
        ("cp932", b"\x81\xadA", "?A"),
        ("euckr", b"\xa2\xe8A", "?A"),
        ("gb18030", b"\xa8\xbc\x81\x35\xf4\x37", "ḿ\ue7c7"),
        ("swe7", b"\x7f", "?"),
    ],
)
def test_bytes_read_as_the_server_converts_them(charset: str, raw: bytes, text: str) -> None:
    known = charset_named(charset)
    assert known is not None
    assert known.decode(raw) == text


def test_only_valid_utf8_is_decoded_without_conversion() -> None:
    assert [name for name, item in CHARSETS.items() if item.is_utf8] == ["utf8mb4", "utf8mb3", "ascii"]
