"""Columns between Spark and Paimon: types as text, and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from penstock.errors import ConfigError
from penstock.pipelines.spark_catalog.limited_types import CHAR_VARCHAR, limited_type
from penstock.pipelines.spark_source.spark_api import TimeType
from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.table.schema.type_text import read_type
from penstock.table.values.arrow_types import NO_ID, arrow_schema
from penstock.table.values.sql_text import backquoted
from penstock.table.values.types import AtomicType, Field
from penstock.table.values.types import DataType as TableType

# Spark keeps the defaults of a column in its metadata: the first is for new rows, the second for rows that are
# older than the column.
CURRENT_DEFAULT, EXISTS_DEFAULT = "CURRENT_DEFAULT", "EXISTS_DEFAULT"
# Marks a default that was read from a table. Spark copies the metadata of a column into the columns of a query, and so
# into the table of CREATE TABLE AS, whose columns have no defaults.
_OF_A_TABLE = "penstock.default-of-a-table"
_PLAIN = {"tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date"}
_LITERAL = re.compile(r"(?:date|timestamp|timestamp_ntz|timestamp_ltz)?\s*'((?:[^'\\]|'')*)'", re.IGNORECASE)
# Spark writes the default of a column with a type as CAST('1' AS INT).
_CAST = re.compile(r"cast\s*\((.*)\s+as\s+[\w(), ]+\)", re.IGNORECASE | re.DOTALL)
# Numbers in Spark's SQL may end with a letter for their type, as in 1L or 2.5BD.
_PLAIN_VALUE = re.compile(r"([-+]?[\d.]+(?:e[-+]?\d+)?|true|false)(?:bd|[lsydf])?", re.IGNORECASE)


def type_text(type_: DataType, *, nullable: bool = True) -> str:
    """Return a type of Spark as the text of a type of Paimon."""
    return _text(type_) + ("" if nullable else " NOT NULL")


def _text(type_: DataType) -> str:
    match type_:
        case StringType() if type_.simpleString() == "string":
            return "STRING"
        case CharType() | VarcharType():
            return f"{type_.typeName().upper()}({type_.length})"
        case DecimalType():
            return f"DECIMAL({type_.precision}, {type_.scale})"
        case BinaryType():
            return "BYTES"
        case TimestampType():
            return "TIMESTAMP_LTZ(6)"
        case TimestampNTZType():
            return "TIMESTAMP(6)"
        case TimeType():
            # Paimon stores a TIME as milliseconds of the day.
            return f"TIME({min(type_.precision, 3)})"
        case ArrayType():
            return f"ARRAY<{type_text(type_.elementType, nullable=type_.containsNull)}>"
        case MapType():
            value = type_text(type_.valueType, nullable=type_.valueContainsNull)
            return f"MAP<{type_text(type_.keyType, nullable=False)}, {value}>"
        case StructType():
            members = (
                f"{backquoted(field.name)} {type_text(field.dataType, nullable=field.nullable)}"
                for field in type_.fields
            )
            return f"ROW<{', '.join(members)}>"
    name = str(type_.simpleString())
    if name not in _PLAIN:
        raise ConfigError(f"tables have no type {name}", hint="cast the column to another type, such as STRING")
    return name.upper()


def new_column(field: StructField) -> Field:
    """Return a column of CREATE TABLE."""
    metadata = field.metadata or {}
    default = None if metadata.get(_OF_A_TABLE) else metadata.get(CURRENT_DEFAULT)
    return Field(
        NO_ID,
        field.name,
        read_type(type_text(field.dataType, nullable=field.nullable)),
        metadata.get("comment"),
        None if default is None else default_text(default),
    )


def default_text(sql: str | None) -> str | None:
    """Return the text of a default that Spark gives as SQL; None for NULL."""
    text = (sql or "null").strip()
    cast = _CAST.fullmatch(text)
    if cast is not None:
        return default_text(cast[1])
    if text.lower() == "null":
        return None
    quoted, plain = _LITERAL.fullmatch(text), _PLAIN_VALUE.fullmatch(text)
    if quoted is not None:
        return quoted[1].replace("''", "'")
    if plain is None:
        hint = "a number, a text in single quotes, TRUE or FALSE"
        raise ConfigError(f"the default {text!r} is not a literal", hint=hint)
    return plain[1]


def described_columns(fields: Iterable[Field]) -> StructType:
    """Return the columns of a table, with their comments and defaults."""
    given = tuple(fields)
    schema = spark_schema(arrow_schema(given))
    return StructType([_described(field_type, field) for field_type, field in zip(schema.fields, given, strict=True)])


def _described(field: StructField, own: Field) -> StructField:
    metadata: dict[str, Any] = {}
    limited = limited_type(own.type)
    if limited is not None:
        metadata[CHAR_VARCHAR] = limited
    if own.description:
        metadata["comment"] = own.description
    if own.default is not None:
        # In Spark's SQL a backslash begins an escape within a literal.
        escaped = own.default.replace("\\", "\\\\").replace("'", "\\'")
        text = f"'{escaped}'"
        if not isinstance(field.dataType, StringType):
            text = f"CAST({text} AS {field.dataType.simpleString()})"
        metadata |= {CURRENT_DEFAULT: text, EXISTS_DEFAULT: text, _OF_A_TABLE: True}
    return StructField(field.name, field.dataType, field.nullable, metadata)


def catalyst_value(value: object, type_: TableType) -> object:
    """Return the internal value of a partition as JSON of Spark's internal form.

    Times are numbers in both: Python's dates have neither nanoseconds nor the years before 1 and after 9999.
    """
    match value, type_:
        case int(), AtomicType("TIMESTAMP" | "TIMESTAMP_LTZ"):
            return value // 1000
        case int(), AtomicType("TIME"):
            return value * 1_000_000
        case Decimal(), _:
            return str(value)
        case bytes(), _:
            return value.decode("latin-1")
    return value


def table_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table among the properties that Spark passes: its own are reserved names."""
    # Spark passes the OPTIONS of a statement twice, the second time with the prefix "option.".
    return {name: text for name, text in properties.items() if name not in RESERVED and not name.startswith("option.")}


RESERVED = frozenset(
    {"provider", "location", "owner", "external", "is_managed_location", "comment", "table_type", "collation"}
)
