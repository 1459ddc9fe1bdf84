"""Types from the catalog's names and modifiers."""

from __future__ import annotations

import pytest

from penstock.ingest.postgres.relation import PgType


@pytest.mark.parametrize(
    ("name", "modifier", "declared"),
    [
        ("int4", -1, "int4"),
        ("varchar", 14, "varchar(10)"),
        ("bpchar", 7, "char(3)"),
        ("char", -1, '"char"'),
        ("numeric", ((12 << 16) | 2) + 4, "numeric(12,2)"),
        ("numeric", ((5 << 16) | (-2 & 0x7FF)) + 4, "numeric(5,-2)"),
        ("numeric", -1, "numeric"),
        ("timestamp", 3, "timestamp(3)"),
        ("bit", -1, "bit(1)"),
        ("bit", 11, "bit(11)"),
        ("interval", 5, "interval"),
    ],
)
def test_names_and_modifiers(name: str, modifier: int, declared: str) -> None:
    assert str(PgType.of(name, modifier)) == declared


def test_arrays_show_their_element() -> None:
    assert str(PgType("_numeric", element=PgType("numeric", 6, 2))) == "numeric(6,2)[]"


@pytest.mark.parametrize(
    ("kind", "binary"),
    [
        (PgType("numeric", 38, 10), True),
        (PgType("numeric", 39, 10), False),
        (PgType("numeric", 5, -2), False),
        (PgType("inet"), False),
        (PgType.of("char"), False),
        (PgType("_inet", element=PgType("inet")), False),
        (PgType("_enum", element=PgType("enum")), True),
    ],
)
def test_types_with_binary_values(kind: PgType, binary: bool) -> None:
    assert kind.is_binary is binary
