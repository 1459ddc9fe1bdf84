"""Timestamps before 1970, split for ORC into the seconds that it stores and the nanoseconds beside them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.errors import TimestampOutOfRange
from penstock.table.files.relayout import UNIT_NANOS, map_leaves
from penstock.table.values.buffers import Ints, filled_values


def with_unit(type_: pa.DataType, unit: str) -> pa.DataType:
    """Return the type with another unit for all its timestamps."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp(unit, type_.tz)
    if pa.types.is_map(type_):
        return pa.map_(_member(type_.key_field, unit), _member(type_.item_field, unit))
    if pa.types.is_list(type_):
        return pa.list_(_member(type_.value_field, unit))
    if pa.types.is_struct(type_):
        return pa.struct([_member(type_.field(place), unit) for place in range(type_.num_fields)])
    return type_


def _member(field: pa.Field, unit: str) -> pa.Field:
    return field.with_type(with_unit(field.type, unit))


def has_early_fractions(column: pa.ChunkedArray) -> bool:
    """Return whether the column contains, at any depth, a timestamp before 1970 with a fraction of a second."""
    return any(_is_early(leaf) for chunk in column.chunks for leaf in _timestamps(chunk))


def _is_early(leaf: pa.Array) -> bool:
    low = pc.min(leaf.view(pa.int64())).as_py()
    # The minimum is cheap and spares most columns the division.
    return leaf.type.unit != "s" and low is not None and low < 0 and bool((_apart(leaf)[1] != 0).any())


def _timestamps(array: pa.Array) -> Iterator[pa.Array]:
    type_ = array.type
    if pa.types.is_timestamp(type_):
        yield array
    elif pa.types.is_map(type_):
        yield from _timestamps(array.keys)
        yield from _timestamps(array.items)
    elif pa.types.is_list(type_):
        yield from _timestamps(array.values)
    elif pa.types.is_struct(type_):
        for place in range(type_.num_fields):
            yield from _timestamps(array.field(place))


def as_seconds(column: pa.ChunkedArray, type_: pa.DataType, name: str) -> pa.ChunkedArray:
    """Return the column with only the seconds, as ORC stores them; `type_` is the result of `with_unit(.., "s")`.

    TimestampOutOfRange for the last second before 1970 with a fraction, which ORC cannot represent.
    """

    def leaf(array: pa.Array, target: pa.DataType) -> pa.Array:
        if not pa.types.is_timestamp(target):
            return array
        seconds, nanos = _apart(array)
        if ((seconds == -1) & (nanos > 999_999)).any():
            raise TimestampOutOfRange(
                "ORC cannot distinguish fractions of the last second before 1970 from those of the first second"
                " after it",
                column=name,
                hint="write the table as Parquet",
            )
        return _like(array, rounded(seconds, nanos), target)

    return pa.chunked_array([map_leaves(chunk, type_, leaf) for chunk in column.chunks], type_)


def as_nanoseconds(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Return the column with only the fractions of seconds; `type_` is the result of `with_unit(.., "ns")`."""

    def leaf(array: pa.Array, target: pa.DataType) -> pa.Array:
        return _like(array, _apart(array)[1], target) if pa.types.is_timestamp(target) else array

    return pa.chunked_array([map_leaves(chunk, type_, leaf) for chunk in column.chunks], type_)


def rounded(seconds: Ints, nanos: Ints) -> Ints:
    """Return seconds rounded toward 1970 as ORC does; the nanoseconds show a reader that they were rounded."""
    # Java divides milliseconds by 1000 and truncates toward zero. A fraction below a millisecond does not change
    # them.
    return seconds + ((seconds < 0) & (nanos > 999_999))


def unrounded(seconds: Ints, nanos: Ints) -> Ints:
    """Return the seconds before `rounded` was applied."""
    return seconds - ((seconds < 0) & (nanos > 999_999))


def _apart(leaf: pa.Array) -> tuple[Ints, Ints]:
    """Return whole seconds, and nanoseconds that are never negative; zeros for nulls."""
    unit = UNIT_NANOS[leaf.type.unit]
    values = filled_values(leaf, np.int64).view(np.int64)
    seconds, rest = np.divmod(values, 10**9 // unit)
    return seconds, rest * unit


def _like(array: pa.Array, values: Ints, target: pa.DataType) -> pa.Array:
    """Return `values` with the nulls of `array`."""
    # The bitmap of a slice begins at its offset. The values get the same offset, so that the bitmap need not be
    # shifted.
    behind = np.zeros(array.offset + len(array), np.int64)
    behind[array.offset :] = values
    buffers = [array.buffers()[0], pa.py_buffer(behind)]
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, array.offset)
