"""The Paimon types of PostgreSQL's types, as Paimon's action maps them."""

from __future__ import annotations

import pytest

from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.postgres import postgres_type
from penstock.table.values.types import ArrayType, type_json


@pytest.mark.parametrize(
    ("declared", "paimon"),
    [
        ("bool", "BOOLEAN"),
        ("int2", "SMALLINT"),
        ("int8", "BIGINT"),
        ("float4", "FLOAT"),
        ("numeric", "DECIMAL(38, 18)"),
        ("numeric(12,2)", "DECIMAL(12, 2)"),
        ("numeric(40,2)", "STRING"),
        ("numeric(5,-2)", "STRING"),
        ("varchar(10)", "VARCHAR(10)"),
        ("varchar", "STRING"),
        ("char(3)", "CHAR(3)"),
        ("bit(1)", "BOOLEAN"),
        ("bit(11)", "BINARY(2)"),
        ("bytea", "BYTES"),
        ("time(6)", "TIME(3)"),
        ("timestamp(0)", "TIMESTAMP(0)"),
        ("timestamptz", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("uuid", "STRING"),
        ("enum", "STRING"),
        ("inet", "STRING"),
        ("inet[]", "STRING"),
        ("numeric(40,2)[]", "STRING"),
    ],
)
def test_a_type_of_postgresql_becomes_a_type_of_paimon(declared: str, paimon: str) -> None:
    assert type_json(postgres_type(declared, TypeMapping())) == paimon


def test_arrays_have_the_type_of_their_elements() -> None:
    found = postgres_type("numeric(6,2)[]", TypeMapping())
    assert isinstance(found, ArrayType)
    assert type_json(found.element) == "DECIMAL(6, 2)"


def test_options_of_the_type_mapping() -> None:
    mapping = TypeMapping.of(["char-to-string,time-to-string"])
    assert {type_json(postgres_type(item, mapping)) for item in ("varchar(10)", "char(3)", "time(3)")} == {"STRING"}
