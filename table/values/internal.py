"""The internal values: how the table represents single values of keys, partitions, minima and maxima in Python.

BOOLEAN is bool; integers, DATE (days since 1970) and TIME (milliseconds) are int; FLOAT and DOUBLE are float; DECIMAL
is Decimal; strings are str; bytes are bytes; TIMESTAMP and TIMESTAMP_LTZ are int nanoseconds since 1970; ARRAY is a
list; MAP and MULTISET are lists of pairs; ROW is a tuple; VARIANT is the pair (value, metadata); null is None.

Single values also have an order here: as Python values that compare as the table orders them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Context, Decimal, Inexact

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import timestamp_unit, to_arrow
from penstock.table.values.buffers import one_array
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType

_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
# The precision leaves space to shift 38 digits. Any operation that would lose a digit raises.
_EXACT = Context(prec=120, traps=[Inexact])


def unscaled(value: Decimal, scale: int) -> int:
    """Return the unscaled integer of a DECIMAL. A digit beyond the scale raises decimal.Inexact."""
    return int(value.scaleb(scale, _EXACT).to_integral_exact(context=_EXACT))


def scaled(value: int, scale: int) -> Decimal:
    """Return the decimal with this unscaled value, exactly."""
    return Decimal(value).scaleb(-scale, _EXACT)


def internal_values(column: pa.Array, type_: DataType) -> list[object]:
    """Return the values of a column in their internal form, as BinaryRows and statistics contain them."""
    return _values(one_array(column, to_arrow(type_)), type_)


def _values(array: pa.Array, type_: DataType) -> list[object]:
    match type_:
        case AtomicType("TIMESTAMP" | "TIMESTAMP_LTZ"):
            # Viewed as integers, because Python's datetime has neither nanoseconds nor years before 1 and after 9999.
            nanos = _NANOS[timestamp_unit(type_.precision)]
            return [None if value is None else value * nanos for value in array.view(pa.int64()).to_pylist()]
        case AtomicType("DATE" | "TIME"):
            return list(array.view(pa.int32()).to_pylist())
        case AtomicType("VARIANT"):
            return [None if value is None else (value["value"], value["metadata"]) for value in array.to_pylist()]
        case AtomicType():
            return list(array.to_pylist())
        case ArrayType(element):
            return _lists(array, _values(_inside(array, array.values), element))
        case MapType() | MultisetType():
            key, value = entry_types(type_)
            keys = _values(_inside(array, array.keys), key)
            return _lists(array, list(zip(keys, _values(_inside(array, array.items), value), strict=True)))
        case RowType(fields):
            # flatten() makes the members of a null row null. The rows of a ROW without members cannot be built by
            # zip.
            members = zip(array.flatten(), fields, strict=True)
            columns = [_values(member, field.type) for member, field in members]
            rows: list[object] = list(zip(*columns, strict=True)) if columns else [()] * len(array)
            return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]


def entry_types(type_: MapType | MultisetType) -> tuple[DataType, DataType]:
    """Return the types of keys and values. A MULTISET maps its elements to their counts."""
    if isinstance(type_, MapType):
        return type_.key, type_.value
    return type_.element, AtomicType("INT", nullable=False)


def _inside(array: pa.Array, child: pa.Array) -> pa.Array:
    # A slice of a list array shares the child of the whole array.
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return child.slice(first, last - first)


def _lists(array: pa.Array, values: Sequence[object]) -> list[object]:
    ends = array.offsets.to_pylist()
    spans = zip(ends, ends[1:], array.is_valid().to_pylist(), strict=False)
    return [list(values[begin - ends[0] : end - ends[0]]) if valid else None for begin, end, valid in spans]


def from_internal(values: Sequence[object], type_: DataType) -> pa.Array:
    """Return a column of the public Arrow type. Digits beyond a timestamp's precision are truncated toward the past."""
    return pa.array([_arrow_value(value, type_) for value in values], to_arrow(type_))


def _arrow_value(value: object, type_: DataType) -> object:
    if value is None:
        return None
    match type_, value:
        case AtomicType("TIMESTAMP" | "TIMESTAMP_LTZ"), int():
            return value // _NANOS[timestamp_unit(type_.precision)]
        case AtomicType("VARIANT"), (bytes() as body, bytes() as metadata):
            return {"value": body, "metadata": metadata}
        case ArrayType(element), list():
            return [_arrow_value(item, element) for item in value]
        case MapType() | MultisetType(), list():
            key, item = entry_types(type_)
            return [(_arrow_value(pair[0], key), _arrow_value(pair[1], item)) for pair in value]
        case RowType(fields), tuple():
            members = zip(fields, value, strict=True)
            return {field.name: _arrow_value(item, field.type) for field, item in members}
    return value


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
    # Double.compare orders every NaN after infinity.
    if math.isnan(value):
        return 1 << 63
    # As integers, the bits of negative doubles are in the reverse order, so all but the sign are inverted. -0.0
    # becomes -1 and precedes 0.0.
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF
