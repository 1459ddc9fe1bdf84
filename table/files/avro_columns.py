"""Columns as lists of what Avro is made of, and back: None, bool, int, float, str, bytes, list and dict."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.files.avro_schema import has_text_keys
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.internal import entry_types, unscaled
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType

_DECIMAL_BYTES = 16


def to_avro(array: pa.Array, type_: DataType) -> list[Any]:
    match type_:
        case AtomicType():
            return _atoms(array, type_)
        case ArrayType(element):
            return _spans(array, to_avro(array.values, element))
        case MapType() | MultisetType():
            return _maps(array, *entry_types(type_))
        case RowType(fields):
            columns = [to_avro(array.field(place), field.type) for place, field in enumerate(fields)]
            names = [field.name for field in fields]
            rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
            valid = array.is_valid().to_pylist()
            return [
                dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, valid, strict=True)
            ]


def _atoms(array: pa.Array, type_: AtomicType) -> list[Any]:
    match type_.root:
        case "DATE" | "TIME":
            array = array.view(pa.int32())
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            array = array.cast(_counted(type_)).view(pa.int64())
        case "DECIMAL":
            return [None if value is None else _unscaled(value.as_py(), type_.scale) for value in array]
    return list(array.to_pylist())


def _counted(type_: AtomicType) -> pa.DataType:
    return pa.timestamp("ms" if type_.precision <= 3 else "us", to_arrow(type_).tz)


def _unscaled(value: Any, scale: int) -> bytes | None:
    if value is None:
        return None
    number = unscaled(value, scale)
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _spans(array: pa.Array, values: Sequence[Any]) -> list[Any]:
    ends = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [values[start:end] if there else None for (start, end), there in zip(pairwise(ends), valid, strict=True)]


def _maps(array: pa.MapArray, key: DataType, value: DataType) -> list[Any]:
    pairs = list(zip(to_avro(array.keys, key), to_avro(array.items, value), strict=True))
    if has_text_keys(key):
        return [None if span is None else dict(span) for span in _spans(array, pairs)]
    return _spans(array, [{"key": one, "value": other} for one, other in pairs])


def from_avro(values: Sequence[Any], type_: DataType) -> pa.Array:
    """A column of the public type."""
    arrow = to_arrow(type_)
    match type_:
        case AtomicType():
            return _atom_column(values, type_, arrow)
        case ArrayType(element):
            child = from_avro(list(chain.from_iterable(value for value in values if value is not None)), element)
            return _nested(values, arrow, child)
        case MapType() | MultisetType():
            pairs = list(chain.from_iterable(map(_pairs, values)))
            members = [from_avro([pair[i] for pair in pairs], of) for i, of in enumerate(entry_types(type_))]
            child = pa.StructArray.from_arrays(members, fields=[arrow.key_field, arrow.item_field])
            return _nested(values, arrow, child)
        case RowType(fields):
            columns = [[None if row is None else row[field.name] for row in values] for field in fields]
            members = [from_avro(column, field.type) for column, field in zip(columns, fields, strict=True)]
            missing = pa.array([row is None for row in values], pa.bool_())
            return pa.StructArray.from_arrays(
                members, fields=[arrow.field(i) for i in range(arrow.num_fields)], mask=missing
            )


def _atom_column(values: Sequence[Any], type_: AtomicType, arrow: pa.DataType) -> pa.Array:
    match type_.root:
        case "DATE" | "TIME":
            return pa.array(values, pa.int32()).view(arrow)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return pa.array(values, pa.int64()).view(_counted(type_)).cast(arrow)
        case "DECIMAL":
            return _decimals(values, arrow)
    return pa.array(values, arrow)


def _decimals(values: Sequence[bytes | None], arrow: pa.DataType) -> pa.Array:
    held = pa.array([value is not None for value in values], pa.bool_())
    numbers = (int.from_bytes(value or b"", "big", signed=True) for value in values)
    words = b"".join(number.to_bytes(_DECIMAL_BYTES, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(arrow, len(values), [held.buffers()[1], pa.py_buffer(words)])


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return list(value.items())
    return [(pair["key"], pair["value"]) for pair in value]


def _nested(values: Sequence[Any], arrow: pa.DataType, child: pa.Array) -> pa.Array:
    lengths = [0 if value is None else len(value) for value in values]
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    held = pa.array([value is not None for value in values], pa.bool_())
    return pa.Array.from_buffers(
        arrow, len(values), [held.buffers()[1], pa.py_buffer(offsets)], -1, 0, children=[child]
    )
