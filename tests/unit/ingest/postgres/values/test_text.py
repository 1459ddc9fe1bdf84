"""Arrays as the server prints them."""

from __future__ import annotations

import pytest

from penstock.ingest.postgres.values.text import elements_of


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("{}", []),
        ("{1,2}", ["1", "2"]),
        ('{NULL,null,"NULL"}', [None, None, "NULL"]),
        ('{"a,b","c\\"d","e\\\\f",""}', ["a,b", 'c"d', "e\\f", ""]),
        ("[0:1]={7,8}", ["7", "8"]),
        ("{{1},{2}}", None),
    ],
)
def test_elements(text: str, elements: list[str | None] | None) -> None:
    assert elements_of(text) == elements


@pytest.mark.parametrize("text", ["", "1,2", "{1", "{,}"])
def test_other_texts_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="not an array"):
        elements_of(text)
