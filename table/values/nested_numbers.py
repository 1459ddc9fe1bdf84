"""Decimals and floating-point numbers of columns, at any depth: rounded as Java does, not as Arrow's casts do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.cast_numbers import decimals_of_floats, floats_of_decimals


def with_exact_numbers(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the column with its floating-point numbers as the decimals of `target`, and the other way round.

    All else is left to a cast to `target`; members of structs are matched by name. ArrowInvalid for a number that does
    not fit.
    """
    source = column.type
    if pa.types.is_floating(source) and pa.types.is_decimal128(target):
        return decimals_of_floats(column, target)
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        return floats_of_decimals(column, target)
    if not _has_inexact(source, target):
        return column
    if pa.types.is_struct(source):
        return _struct(column, target)
    if pa.types.is_map(source):
        return _map(column, target)
    values = with_exact_numbers(column.flatten(), target.value_type)
    lists = pa.LargeListArray if pa.types.is_large_list(source) else pa.ListArray
    return lists.from_arrays(_ends(column), values, mask=column.is_null())


def _has_inexact(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether numbers at some depth would be rounded by a cast."""
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        pairs = ((member, target.get_field_index(member.name)) for member in source)
        return any(_has_inexact(member.type, target.field(place).type) for member, place in pairs if place >= 0)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _has_inexact(source.key_type, target.key_type) or _has_inexact(source.item_type, target.item_type)
    if _is_list(source) and pa.types.is_list(target):
        return _has_inexact(source.value_type, target.value_type)
    floating = pa.types.is_floating(source) and pa.types.is_decimal128(target)
    return bool(floating or (pa.types.is_decimal(source) and pa.types.is_floating(target)))


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def _struct(column: pa.StructArray, target: pa.StructType) -> pa.Array:
    members, fields = [], []
    # flatten() makes members null where the struct is null: numbers there need not fit.
    for field, member in zip(column.type, column.flatten(), strict=True):
        place = target.get_field_index(field.name)
        exact = member if place < 0 else with_exact_numbers(member, target.field(place).type)
        members.append(exact)
        fields.append(field.with_type(exact.type))
    return pa.StructArray.from_arrays(members, fields=fields, mask=column.is_null())


def _map(column: pa.MapArray, target: pa.MapType) -> pa.Array:
    # keys and items ignore the range of a slice
    ends = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    begin, count = int(ends[0]), int(ends[-1] - ends[0])
    keys = with_exact_numbers(column.keys.slice(begin, count), target.key_type)
    items = with_exact_numbers(column.items.slice(begin, count), target.item_type)
    return pa.MapArray.from_arrays(pa.array(ends - begin), keys, items, mask=column.is_null())


def _ends(column: pa.Array) -> pa.Array:
    """Return the offsets of lists in their flattened values."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    wide = np.int64 if pa.types.is_large_list(column.type) else np.int32
    return pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(wide))
