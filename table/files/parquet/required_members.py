"""NOT NULL members of structs that are null: Arrow writes them only without nulls of their own."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.table.files.relayout import nested
from penstock.table.values.buffers import Flags, validity


def without_hidden_nulls(rows: pa.Table) -> pa.Table:
    """Return rows whose required members have nulls only where the struct around them is not null.

    A struct of nulls mostly has members of nulls, as in a column that is missing in an older file.
    """
    for place, field in enumerate(rows.schema):
        column = rows.column(place)
        if _has_required(field.type) and (column.null_count or _has_nested(field.type)):
            chunks = [_revealed(chunk) for chunk in column.chunks]
            rows = rows.set_column(place, field, pa.chunked_array(chunks, field.type))
    return rows


@lru_cache(maxsize=4096)
def _has_required(type_: pa.DataType) -> bool:
    members = [type_.field(place) for place in range(type_.num_fields)]
    required = pa.types.is_struct(type_) and any(not member.nullable for member in members)
    return required or any(_has_required(member.type) for member in members)


@lru_cache(maxsize=4096)
def _has_nested(type_: pa.DataType) -> bool:
    return any(type_.field(place).type.num_fields for place in range(type_.num_fields))


def _revealed(array: pa.Array, hidden: Flags | None = None) -> pa.Array:
    """Return an array whose required members have no nulls under a null; `hidden` are the rows below a null."""
    type_ = array.type
    if pa.types.is_list(type_):
        return nested(array, type_, _revealed(array.values))
    if pa.types.is_map(type_):
        entries = [_revealed(array.keys), _revealed(array.items)]
        return nested(array, type_, pa.StructArray.from_arrays(entries, fields=[type_.key_field, type_.item_field]))
    if not pa.types.is_struct(type_):
        return array
    present = validity(array)
    nulls = np.zeros(len(array), np.bool_) if present is None else ~present
    hidden = nulls if hidden is None else nulls | hidden
    members = [_member(array.field(place), type_.field(place), hidden) for place in range(type_.num_fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=[*type_], mask=mask)


def _member(array: pa.Array, field: pa.Field, hidden: Flags) -> pa.Array:
    array = _revealed(array, hidden)
    present = None if field.nullable or not array.null_count else validity(array)
    if present is None or not np.all(present | hidden):
        return array  # a null that the struct shows is refused by the writer
    return _without_bitmap(array)


def _without_bitmap(array: pa.Array) -> pa.Array:
    """Return the array with whatever is stored below its nulls."""
    if pa.types.is_struct(array.type):
        return pa.StructArray.from_arrays(
            [array.field(place) for place in range(array.type.num_fields)], fields=[*array.type]
        )
    buffers = array.buffers()
    if array.type.num_fields:
        children = [array.values if pa.types.is_list(array.type) else _entries(array)]
        return pa.Array.from_buffers(array.type, len(array), [None, buffers[1]], 0, array.offset, children=children)
    return pa.Array.from_buffers(array.type, len(array), [None, *buffers[1:]], 0, array.offset)


def _entries(array: pa.MapArray) -> pa.StructArray:
    return pa.StructArray.from_arrays([array.keys, array.items], fields=[array.type.key_field, array.type.item_field])
