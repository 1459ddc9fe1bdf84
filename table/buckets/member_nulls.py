"""Nulls in members of nested values: refused where the member is NOT NULL, unless an enclosing value is null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class NullMember(Exception):
    """A null in a NOT NULL member; `path` names the member, as in `address.city` or `tags.element`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def has_required_members(type_: pa.DataType) -> bool:
    """Return whether a member of the type, or of its members, is NOT NULL. Keys of maps always are."""
    return any(not member.nullable or has_required_members(member.type) for member in _members(type_))


def with_optional_members(type_: pa.DataType) -> pa.DataType:
    """Return the type with all members nullable."""
    if pa.types.is_struct(type_):
        return pa.struct([_optional(member) for member in type_])
    if pa.types.is_map(type_):
        return pa.map_(with_optional_members(type_.key_type), _optional(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(_optional(type_.value_field))
    return type_


def with_required_members(column: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Return the column, which differs in the nullability of members only, as the target type. NullMember if it cannot.

    In DuckDB, the members of a null value are null. Arrow wants them to have some value, which is never read.
    """
    if pa.types.is_struct(target):
        children = [_fitted(column.field(place), member, path, column.is_null()) for place, member in enumerate(target)]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=column.is_null())
    if pa.types.is_map(target):
        pairs = pa.struct([pa.field("key", target.key_type), pa.field("value", target.item_type)])
        entries = column.cast(pa.list_(with_optional_members(pairs)))
        values = entries.flatten()
        items = _fitted(values.field(1), target.item_field, path, values.is_null())
        return pa.MapArray.from_arrays(_offsets(entries), values.field(0), items, target, mask=column.is_null())
    if pa.types.is_list(target):
        values = column.flatten()
        fitted = _fitted(values, target.value_field, path, pa.array(np.zeros(len(values), bool)), "element")
        return pa.ListArray.from_arrays(_offsets(column), fitted, target, mask=column.is_null())
    return column


def _fitted(
    values: pa.Array, member: pa.Field, path: str, around_is_null: pa.Array, name: str | None = None
) -> pa.Array:
    place = f"{path}.{name or member.name}"
    fitted = with_required_members(values, member.type, place)
    if member.nullable or not fitted.null_count:
        return fitted
    if pc.any(pc.and_not(fitted.is_null(), around_is_null)).as_py():
        raise NullMember(place)
    return _filled(fitted, member.type)


def _filled(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the values with any value in place of nulls."""
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays(
            [values.field(place) for place in range(type_.num_fields)], fields=list(type_)
        )
    if pa.types.is_map(type_):
        return pa.MapArray.from_arrays(_offsets(values), values.keys, values.items, type_)
    if pa.types.is_list(type_):
        return pa.ListArray.from_arrays(_offsets(values), values.flatten(), type_)
    zeros = pa.array([False], pa.bool_()) if pa.types.is_boolean(type_) else pa.array([0], pa.int8())
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        width = type_.byte_width if pa.types.is_fixed_size_binary(type_) else 0
        return values.fill_null(pa.scalar(b"\0" * width, pa.binary()).cast(type_))
    if pa.types.is_temporal(type_):
        zeros = pa.array([0], pa.int32() if type_.bit_width == 32 else pa.int64())
    return values.fill_null(zeros.cast(type_)[0])


def _offsets(lists: pa.Array) -> pa.Array:
    """Return the offsets of the flattened values; a list that is null has no values."""
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _members(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [type_.item_field]
    return [type_.value_field] if pa.types.is_list(type_) else []


def _optional(member: pa.Field) -> pa.Field:
    return pa.field(member.name, with_optional_members(member.type))
