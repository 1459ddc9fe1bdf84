"""Conversion between the Arrow layouts of files and of memory: units, lists, names, padded CHARs and split timestamps.

Files and memory differ only in layout. A conversion that changes values is a cast (`values.casts`) and not done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.errors import TimestampOutOfRange
from penstock.table.values.buffers import Ints, fixed_values, validity
from penstock.table.values.internal import entry_types
from penstock.table.values.types import INT, ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType


def relayout(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return `array` as `target`, which has the same nesting; members of structs are matched by position.

    Copies only what differs. ArrowInvalid when a value does not fit the target.
    """
    return array if array.type.equals(target) else map_leaves(array, target, _leaf)


def map_leaves(array: pa.Array, target: pa.DataType, leaf: Callable[..., pa.Array], *beside: pa.Array) -> pa.Array:
    """Return `array` rebuilt as `target`, applying `leaf(values, type, *values beside)` to values that are not nested.

    The arrays `beside` have the shape of `array` and are traversed along with it.
    """
    source = array.type
    if pa.types.is_dictionary(source):
        return map_leaves(array.dictionary_decode(), target, leaf, *beside)
    if pa.types.is_map(target) and pa.types.is_map(source):
        key, value = target.key_field, target.item_field
        keys = map_leaves(array.keys, key.type, leaf, *(neighbour.keys for neighbour in beside))
        values = map_leaves(array.items, value.type, leaf, *(neighbour.items for neighbour in beside))
        # keys and items ignore the offset of a slice. The rebuilt child ignores it too, so its offsets remain valid.
        return nested(array, target, pa.StructArray.from_arrays([keys, values], fields=[key, value]))
    if pa.types.is_list(target) and pa.types.is_list(source):
        child = map_leaves(array.values, target.value_type, leaf, *(neighbour.values for neighbour in beside))
        return nested(array, target, child)
    if pa.types.is_struct(target) and pa.types.is_struct(source):
        fields = [target.field(place) for place in range(target.num_fields)]
        members = [
            map_leaves(array.field(place), field.type, leaf, *(neighbour.field(place) for neighbour in beside))
            for place, field in enumerate(fields)
        ]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null() if array.null_count else None)
    return leaf(array, target, *beside)


def nested(array: pa.Array, target: pa.DataType, child: pa.Array) -> pa.Array:
    """Return a list or map array with the lengths and nulls of `array` over another child."""
    # The bitmap and the offsets are shared, not copied.
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[child]
    )


def _leaf(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if source.equals(target):
        return array
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(source) and source.unit == target.unit:
        return array.view(target)  # the zone is only a label: both types count from the UTC epoch
    if pa.types.is_time(target) and source.equals(pa.int32()):
        return array.view(target)
    if is_split_timestamp(target) and pa.types.is_timestamp(source):
        counts, unit = fixed_values(array, np.int64).view(np.int64), UNIT_NANOS[source.unit]
        return moments(array, counts // (10**9 // unit), counts % (10**9 // unit) * unit, target, "")
    return array.cast(target)


def relayout_column(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Return a chunked column as `target`; see `relayout`."""
    if column.type.equals(target):
        return column
    return pa.chunked_array([relayout(chunk, target) for chunk in column.chunks], target)


def pad_chars(array: pa.Array, type_: DataType) -> pa.Array:
    """Return `array` with every CHAR in it padded with blanks, as ORC stores it."""
    return _map_chars(array, type_, pc.utf8_rpad)


def trim_chars(array: pa.Array, type_: DataType) -> pa.Array:
    """Return `array` with the trailing blanks of every CHAR in it removed, as Java reads it."""
    return _map_chars(array, type_, lambda chars, _: pc.utf8_rtrim(chars, " "))


def _map_chars(array: pa.Array, type_: DataType, change: Callable[[pa.Array, int], pa.Array]) -> pa.Array:
    if not any(_lengths(type_)):
        return array
    match type_:
        case AtomicType():
            return change(array, type_.length)
        case ArrayType(element):
            return nested(array, array.type, _map_chars(array.values, element, change))
        case MapType() | MultisetType():
            pairs = zip((array.keys, array.items), entry_types(type_), strict=True)
            fields = [array.type.key_field, array.type.item_field]
            members = [_map_chars(member, of, change) for member, of in pairs]
            return nested(array, array.type, pa.StructArray.from_arrays(members, fields=fields))
        case RowType(fields):
            members = [_map_chars(array.field(place), member.type, change) for place, member in enumerate(fields)]
            names = [array.type.field(place) for place in range(len(fields))]
            return pa.StructArray.from_arrays(members, fields=names, mask=array.is_null())


def char_lengths(fields: Sequence[Field]) -> dict[int, int]:
    """Return the length of each ORC column that is a CHAR, by column number.

    Column 0 is the row, the others are numbered depth first.
    """
    lengths = (length for field in fields for length in _lengths(field.type))
    return {column: length for column, length in enumerate(lengths, 1) if length}


def _lengths(type_: DataType) -> Iterator[int]:
    """Yield the length of each ORC column that the type consists of: 0 unless the column is a CHAR."""
    yield type_.length if isinstance(type_, AtomicType) and type_.root == "CHAR" else 0
    match type_:
        case AtomicType("VARIANT"):
            # A VARIANT is a struct of two binaries, which are numbered as columns too.
            yield from (0, 0)
        case ArrayType(element):
            yield from _lengths(element)
        case MapType() | MultisetType():
            for member in entry_types(type_):
                yield from _lengths(member)
        case RowType(fields):
            for field in fields:
                yield from _lengths(field.type)


UNIT_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_FIRST_OF_NANOS, _LAST_OF_NANOS = divmod(-(2**63), 10**9), divmod(2**63 - 1, 10**9)


def split_type(stamp: AtomicType) -> RowType:
    """Return the type in which files of nanosecond timestamps are read if every year is needed."""
    return RowType((Field(0, "seconds", replace(stamp, precision=0)), Field(1, "nanos", INT)), nullable=stamp.nullable)


def is_split_timestamp(type_: pa.DataType) -> bool:
    """Return whether the type, which is not that of a ROW, is that of `split_type`: a struct."""
    return bool(pa.types.is_struct(type_))


def moments(like: pa.Array, seconds: Ints, nanos: Ints, target: pa.DataType, column: str) -> pa.Array:
    """Return timestamps with the nulls of `like`. `nanos` may be negative, or more than a second.

    TimestampOutOfRange when the target has nanoseconds and a value exceeds their range of years.
    """
    present = validity(like)
    if present is not None:
        # Under a null there may be any number, which must not be reported as out of range.
        seconds, nanos = np.where(present, seconds, 0), np.where(present, nanos, 0)
    if is_split_timestamp(target):
        whole = pa.array(seconds + nanos // 10**9).view(target.field(0).type)
        members = [whole, pa.array((nanos % 10**9).astype(np.int32))]
        return pa.StructArray.from_arrays(members, fields=[*target], mask=like.is_null())
    unit = UNIT_NANOS[target.unit]
    if unit == 1:
        _refuse_out_of_range(seconds + nanos // 10**9, nanos % 10**9, column)
    # The values get the offset of `like`, whose bitmap is shared.
    values = np.zeros(like.offset + len(like), np.int64)
    values[like.offset :] = seconds * (10**9 // unit) + nanos // unit
    buffers = [like.buffers()[0], pa.py_buffer(values)]
    return pa.Array.from_buffers(target, len(like), buffers, like.null_count, like.offset)


def _refuse_out_of_range(seconds: Ints, nanos: Ints, column: str) -> None:
    (first, least), (last, most) = _FIRST_OF_NANOS, _LAST_OF_NANOS
    early = (seconds < first) | ((seconds == first) & (nanos < least))
    late = (seconds > last) | ((seconds == last) & (nanos > most))
    if np.any(early | late):
        raise TimestampOutOfRange(
            "a TIMESTAMP of nanoseconds is outside of 1677-09-21 to 2262-04-11, the range of Arrow",
            column=column,
            hint="change the type of the column to TIMESTAMP(6), which truncates the last three digits",
        )
