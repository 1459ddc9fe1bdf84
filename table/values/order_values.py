"""The order of single values, as Python values that compare as the table orders them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from penstock.errors import ConfigError
from penstock.table.values.types import AtomicType, DataType

OrderValue = tuple[int, object]


def order_value(value: object, type_: DataType) -> OrderValue:
    """Return a Python value that compares as the table orders this internal value.

    Nulls sort first, and floats as Double.compare orders them.
    """
    if value is None:
        return 0, 0
    if isinstance(value, float):
        return 1, _double_order(value)
    if not isinstance(type_, AtomicType) or type_.root == "VARIANT":
        raise ConfigError(f"{type_} has no order")
    return 1, value  # Python compares str by code point, which is the order of UTF-8 bytes


def order_values(values: Sequence[object], types: Sequence[DataType]) -> tuple[OrderValue, ...]:
    """Return the order_value of every column of a key."""
    return tuple(order_value(value, type_) for value, type_ in zip(values, types, strict=True))


def _double_order(value: float) -> int:
    if math.isnan(value):
        return 1 << 63
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF
