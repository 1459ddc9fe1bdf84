"""The ids of columns and of the members inside them (table-format 2.2)."""

from __future__ import annotations

from dataclasses import replace

from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType


def number_columns(columns: tuple[Field, ...], highest: int) -> tuple[tuple[Field, ...], int]:
    """The columns with fresh ids above `highest`, and the highest now. A column comes before what is inside it."""
    numbered = []
    for column in columns:
        own = highest + 1
        type_, highest = number_members(column.type, own)
        numbered.append(replace(column, id=own, type=type_))
    return tuple(numbered), highest


def number_members(type_: DataType, highest: int) -> tuple[DataType, int]:
    """The same inside a type, where a member comes after what is inside it."""
    match type_:
        case AtomicType():
            return type_, highest
        case ArrayType(inner) | MultisetType(inner):
            element, highest = number_members(inner, highest)
            return replace(type_, element=element), highest
        case MapType(key, value):
            key, highest = number_members(key, highest)
            value, highest = number_members(value, highest)
            return replace(type_, key=key, value=value), highest
        case RowType(fields):
            members = []
            for member in fields:
                inside, highest = number_members(member.type, highest)
                highest += 1
                members.append(replace(member, id=highest, type=inside))
            return replace(type_, fields=tuple(members)), highest
