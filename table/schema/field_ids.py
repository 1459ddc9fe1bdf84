"""Assignment of ids to columns and to their nested members."""

from __future__ import annotations

from dataclasses import replace

from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType


def number_columns(columns: tuple[Field, ...], highest: int) -> tuple[tuple[Field, ...], int]:
    """Return the columns with new ids above `highest`, and the new highest id.

    A column's id is lower than its members' ids.
    """
    numbered = []
    for column in columns:
        own = highest + 1
        type_, highest = number_members(column.type, own)
        numbered.append(replace(column, id=own, type=type_))
    return tuple(numbered), highest


def number_members(type_: DataType, highest: int) -> tuple[DataType, int]:
    """Return the type with new ids for its nested members, and the new highest id.

    Unlike a column, a member of a ROW gets its id after the members inside it.
    """
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
