"""Conversion of values to another Arrow layout: units of time, text and list layouts, names and nullability of members.

Files and memory differ only in layout. A conversion that changes values is a cast (`values.casts`) and not done here.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


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
        keys = map_leaves(array.keys, key.type, leaf, *(one.keys for one in beside))
        values = map_leaves(array.items, value.type, leaf, *(one.items for one in beside))
        return nested(array, target, pa.StructArray.from_arrays([keys, values], fields=[key, value]))
    if pa.types.is_list(target) and pa.types.is_list(source):
        child = map_leaves(array.values, target.value_type, leaf, *(one.values for one in beside))
        return nested(array, target, child)
    if pa.types.is_struct(target) and pa.types.is_struct(source):
        fields = [target.field(place) for place in range(target.num_fields)]
        members = [
            map_leaves(array.field(place), field.type, leaf, *(one.field(place) for one in beside))
            for place, field in enumerate(fields)
        ]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null() if array.null_count else None)
    return leaf(array, target, *beside)


def nested(array: pa.Array, target: pa.DataType, child: pa.Array) -> pa.Array:
    """Return a list or map array with the lengths and nulls of `array` over another child."""
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
    return array.cast(target)


def relayout_column(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Return a chunked column as `target`; see `relayout`."""
    if column.type.equals(target):
        return column
    return pa.chunked_array([relayout(chunk, target) for chunk in column.chunks], target)
