"""Columns of CHAR and VARCHAR for Spark, whose own type for them is STRING."""

from __future__ import annotations

import re

from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.sql_text import backquoted
from penstock.table.values.types import (
    STRING_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    RowType,
)

# Where Spark keeps the type of a column that is CHAR or VARCHAR, or contains one. It checks lengths by it when rows are
# written, and pads CHAR with blanks.
CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
_LIMITED = re.compile(r"\b(?:char|varchar)\(\d+\)")


def limited_type(type_: DataType) -> str | None:
    """Return the type of a column in Spark's SQL, or None if nothing in it has a maximum length."""
    text = _spark_text(type_)
    return text if _LIMITED.search(text) else None


def _spark_text(type_: DataType) -> str:
    match type_:
        case AtomicType("CHAR" | "VARCHAR" as root, length=length) if length < STRING_LENGTH:
            return f"{root.lower()}({length})"
        case ArrayType(element):
            return f"array<{_spark_text(element)}>"
        case MapType(key, value):
            return f"map<{_spark_text(key)},{_spark_text(value)}>"
        case RowType(fields):
            return f"struct<{','.join(f'{backquoted(field.name)}:{_spark_text(field.type)}' for field in fields)}>"
    [field] = spark_schema(arrow_schema([Field(0, "c", type_)])).fields
    return str(field.dataType.simpleString())
