from __future__ import annotations

import pytest

from penstock.table.values.sql_text import TOKEN, backquoted, name_parts, quoted, unquoted, with_double_quotes

NAMES = ["a", "a b", "a`b", '"', "`", '``x""', "語"]


@pytest.mark.parametrize("name", NAMES)
def test_a_quoted_name_is_read_as_it_was_written(name: str) -> None:
    for text in (quoted(name), backquoted(name)):
        assert [match.lastgroup for match in TOKEN.finditer(text)] == ["quoted"]
        assert unquoted(text) == name
    assert with_double_quotes(backquoted(name)) == quoted(name)


def test_only_names_get_double_quotes() -> None:
    text = "`a``b` = 'a`b' AND \"c`d\" > 1 -- `e`\n/* ` */"
    assert with_double_quotes(text) == '"a`b" = \'a`b\' AND "c`d" > 1 -- `e`\n/* ` */'
    assert with_double_quotes("`not closed") == "`not closed"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("shop.orders", ["shop", "orders"]),
        ("`shop`.`or``ders`", ["shop", "or`ders"]),
        ("lake.`a.b`.t", ["lake", "a.b", "t"]),
        ("d.t`2", ["d", "t`2"]),
    ],
)
def test_parts_of_a_name(text: str, names: list[str]) -> None:
    assert name_parts(text) == names
