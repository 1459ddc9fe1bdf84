"""Contents of small files are parsed once per process; errors name the file of each call."""

from __future__ import annotations

import pytest

from penstock.errors import TableCorrupt
from penstock.table.schema.parsed_files import ParsedFiles


def parsed_words(data: bytes, where: str, **facts: object) -> tuple[bytes, ...]:
    if data == b"damaged":
        raise TableCorrupt("the file is damaged", file=where, **facts)
    return tuple(data.split())


def test_small_contents_are_parsed_once() -> None:
    files = ParsedFiles(parsed_words, files=8, largest=100)
    first = files.get(b"a b", "one")
    assert first == (b"a", b"b")
    assert files.get(bytes(bytearray(b"a b")), "two") is first


def test_large_contents_are_not_kept() -> None:
    files = ParsedFiles(parsed_words, files=8, largest=2)
    first = files.get(b"a b", "one")
    assert files.get(b"a b", "one") == first
    assert files.get(b"a b", "one") is not first


def test_contents_with_many_items_are_not_kept() -> None:
    files = ParsedFiles(parsed_words, files=8, largest=100, most=2)
    for data, is_kept in ((b"a b", True), (b"a b c", False)):
        first = files.get(data, "one")
        assert first == tuple(data.split())
        assert (files.get(data, "one") is first) is is_kept


def test_each_error_names_its_file() -> None:
    files = ParsedFiles(parsed_words, files=8, largest=100)
    for name in ("one", "two"):
        with pytest.raises(TableCorrupt) as error:
            files.get(b"damaged", name, snapshot=3)
        assert error.value.facts == {"file": name, "snapshot": 3}
