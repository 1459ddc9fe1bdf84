"""The mapping from PostgreSQL's types to Paimon's, as in Paimon's action, and for more types."""

from __future__ import annotations

import re

from penstock.errors import SchemaConflict
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.types import BYTES, STRING, ArrayType, AtomicType, DataType

_MOST_DIGITS = 38
_MOST_FRACTION, _MOST_MILLIS = 6, 3  # of a timestamp, and of a TIME in Paimon
# In bytes of a BIT VARYING without a length: 2^31 - 1 bits.
_LONGEST_BINARY = 268_435_455
_TIMES = frozenset({"time", "timestamp", "timestamptz"})
_DECLARED = re.compile(r"([^(\[]+)(?:\((\d+)(?:,(-?\d+))?\))?", re.DOTALL)

_PLAIN: dict[str, DataType] = {
    "bool": AtomicType("BOOLEAN"),
    "int2": AtomicType("SMALLINT"),
    "int4": AtomicType("INT"),
    "int8": AtomicType("BIGINT"),
    "float4": AtomicType("FLOAT"),
    "float8": AtomicType("DOUBLE"),
    "date": AtomicType("DATE"),
    "bytea": BYTES,
}


def postgres_type(declared: str, mapping: TypeMapping) -> DataType:
    """Return the Paimon type; STRING for all types whose values are read as the server prints them."""
    if declared.endswith("[]"):
        element = declared.removesuffix("[]")
        return STRING if not _has_values(element) else ArrayType(postgres_type(element, mapping))
    found = _DECLARED.fullmatch(declared)
    if found is None:
        raise SchemaConflict(
            "a type of PostgreSQL cannot be parsed",
            type=declared,
            hint="change the column's type, or leave the table out",
        )
    name, size, scale = found[1], found[2] and int(found[2]), int(found[3] or 0)
    if name in _TIMES:
        return _time(name, _MOST_FRACTION if size is None else int(size), mapping)
    return _PLAIN.get(name) or _sized(name, int(size or 0), scale, mapping)


def _has_values(element: str) -> bool:
    """Return whether elements of an array are decoded one by one; other arrays are text as a whole."""
    name = element.partition("(")[0]
    decoded = name in _PLAIN or name in _SIZED or name in _TEXTS
    return decoded and not (name == "numeric" and postgres_type(element, TypeMapping()) == STRING)


def _sized(name: str, size: int, scale: int, mapping: TypeMapping) -> DataType:
    match name:
        case "numeric":
            return _decimal(size, scale)
        case "char" | "varchar":
            if mapping.char_to_string or not size:
                return STRING
            return AtomicType("CHAR" if name == "char" else "VARCHAR", length=size)
        case "bit" | "varbit":
            if size == 1:
                return AtomicType("BOOLEAN")
            return AtomicType("BINARY", length=(size + 7) // 8 if size else _LONGEST_BINARY)
    return STRING


def _time(name: str, digits: int, mapping: TypeMapping) -> DataType:
    if name == "time":
        return STRING if mapping.time_to_string else AtomicType("TIME", precision=min(digits, _MOST_MILLIS))
    return AtomicType("TIMESTAMP" if name == "timestamp" else "TIMESTAMP_LTZ", precision=digits)


def _decimal(precision: int, scale: int) -> DataType:
    if not precision:
        return AtomicType("DECIMAL", precision=_MOST_DIGITS, scale=18)
    if precision > _MOST_DIGITS or not 0 <= scale <= precision:
        return STRING
    return AtomicType("DECIMAL", precision=precision, scale=scale)


_SIZED = frozenset({"numeric", "char", "varchar", "bit", "varbit"}) | _TIMES
_TEXTS = frozenset({"text", "name", "json", "jsonb", "xml", "citext", "enum", "uuid"})
