"""Values of columns in the forms of Iceberg manifests: bounds as bytes, and values of partitions."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

from penstock.table.values.internal import unscaled
from penstock.table.values.types import AtomicType, DataType

_INT, _LONG, _FLOAT, _DOUBLE = (struct.Struct(f"<{code}") for code in "iqfd")
_NANOS_PER_MICRO = 1000


def partition_value(value: object, type_: DataType) -> object:
    """Return the value of a partition column as Avro contains it: the internal value, but times in microseconds."""
    if isinstance(type_, AtomicType) and type_.root in {"TIMESTAMP", "TIMESTAMP_LTZ"} and isinstance(value, int):
        return value // _NANOS_PER_MICRO
    return value


def internal_value(value: Any, type_: AtomicType) -> Any:
    """Return the internal value of a partition column; the inverse of `partition_value`, also after a read."""
    if type_.root in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        return value * _NANOS_PER_MICRO
    return value


def bound_bytes(value: object, type_: AtomicType, *, upper: bool) -> bytes | None:
    """Return an internal value as the bound of a column of this type, or None if it cannot be a bound."""
    match value:
        case bool():
            return b"\x01" if value else b"\x00"
        case int():
            return _whole(value, type_)
        case float():
            # Iceberg's bounds exclude NaN, and zero may be of either sign.
            if math.isnan(value):
                return None
            shown = (0.0 if upper else -0.0) if value == 0 else value
            return (_FLOAT if type_.root == "FLOAT" else _DOUBLE).pack(shown)
        case Decimal():
            number = unscaled(value, type_.scale)
            # Two's complement with as few bytes as possible, the most significant first.
            return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
        case str():
            return value.encode()
        case bytes():
            return value
    return None


def _whole(value: int, type_: AtomicType) -> bytes:
    if type_.root in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        return _LONG.pack(value // _NANOS_PER_MICRO)
    return _LONG.pack(value) if type_.root == "BIGINT" else _INT.pack(value)
