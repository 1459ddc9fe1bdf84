"""Arrow columns built from decoded Avro values (None, bool, int, float, str, bytes, list and dict)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.files.avro.encode import counted
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.internal import entry_types
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType

_DECIMAL_BYTES = 16


def from_avro(values: Sequence[Any], type_: DataType) -> pa.Array:
    """Return the values as an Arrow array of the type that memory uses for `type_`."""
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
            return pa.array(values, pa.int64()).view(counted(type_)).cast(arrow)
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
