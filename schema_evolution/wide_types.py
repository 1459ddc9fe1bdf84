"""Types for values that a declared type cannot store: a message may declare a type that its source had earlier."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.types import STRING_LENGTH, AtomicType, DataType

_MOST_DIGITS = 38
_INTEGERS = {"TINYINT", "SMALLINT", "INT"}


def without_length(type_: DataType) -> DataType:
    """Return STRING for a text of limited length, other types as they are."""
    if isinstance(type_, AtomicType) and type_.root in {"CHAR", "VARCHAR"}:
        return replace(type_, root="VARCHAR", length=STRING_LENGTH)
    return type_


def wide_type(type_: DataType) -> DataType | None:
    """Return the widest type of the same kind of numbers, None if there is no wider one."""
    if not isinstance(type_, AtomicType):
        return None
    if type_.root in _INTEGERS:
        return replace(type_, root="BIGINT")
    if type_.root == "DECIMAL" and type_.precision < _MOST_DIGITS:
        return replace(type_, precision=_MOST_DIGITS)
    return None


def narrowed(values: pa.Array) -> pa.Array:
    """Return decimals with as many digits as the largest has: products of wider ones would have too many."""
    if not pa.types.is_decimal(values.type):
        return values
    largest = pc.max(pc.abs(values)).as_py()
    if largest is None:
        return values
    scale = values.type.scale
    return pc.cast(values, pa.decimal128(max(len(largest.as_tuple().digits), scale, 1), scale))
