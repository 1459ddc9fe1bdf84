"""Columns between Spark and Paimon."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

from penstock.errors import ConfigError
from penstock.pipelines.spark_catalog.column_types import default_text, described_columns, new_column, type_text
from penstock.table.schema.type_text import written


@pytest.mark.parametrize(
    ("spark", "paimon"),
    [
        ('"integer"', "INT"),
        ('"long"', "BIGINT"),
        ('"decimal(10,2)"', "DECIMAL(10, 2)"),
        ('"varchar(9)"', "VARCHAR(9)"),
        ('"timestamp"', "TIMESTAMP_LTZ(6)"),
        ('"timestamp_ntz"', "TIMESTAMP(6)"),
        ('"binary"', "BYTES"),
        ('{"type": "array", "elementType": "integer", "containsNull": false}', "ARRAY<INT NOT NULL>"),
        (
            '{"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": true}',
            "MAP<STRING NOT NULL, DATE>",
        ),
    ],
)
def test_a_type_of_spark_becomes_a_type_of_paimon(spark: str, paimon: str) -> None:
    assert type_text(_parse_datatype_json_string(spark)) == paimon


def test_a_type_that_tables_do_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="no type interval"):
        type_text(_parse_datatype_json_string('"interval day to second"'))


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("'it''s'", "it's"),
        ("-1.5", "-1.5"),
        ("3BD", "3"),
        ("true", "true"),
        ("NULL", None),
        (None, None),
        ("DATE '2026-01-31'", "2026-01-31"),
        ("CAST('7' AS INT)", "7"),
        ("CAST(7 AS DECIMAL(10, 2))", "7"),
    ],
)
def test_a_default_of_spark_becomes_a_text(sql: str | None, text: str | None) -> None:
    assert default_text(sql) == text


def test_a_default_that_is_computed_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a literal"):
        default_text("current_date()")


def test_a_column_comes_back_as_it_was_given() -> None:
    metadata = {"comment": "how far", "CURRENT_DEFAULT": "'new'"}
    given = StructType.fromJson(
        {"fields": [{"name": "status", "type": "string", "nullable": False, "metadata": metadata}], "type": "struct"}
    )
    column = new_column(given.fields[0])
    assert (column.description, column.default, written(column.type)) == ("how far", "new", "STRING NOT NULL")
    [described] = described_columns([column]).fields
    assert isinstance(described, StructField)
    assert described.nullable is False
    assert described.metadata.items() >= {**metadata, "EXISTS_DEFAULT": "'new'"}.items()
    # CREATE TABLE AS gets the columns of a query with all their metadata.
    assert new_column(described).default is None
