"""Access to nested columns by their path: `a.b` is member b of the ROW a.

The component `element` enters an ARRAY and `value` enters a MAP, as in `orders.element.price`.

The module also assigns the ids of columns and of their members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from penstock.errors import ConfigError
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType

Path: TypeAlias = tuple[str, ...]


def path_of(name: str | Sequence[str], columns: tuple[Field, ...]) -> Path:
    """Return the path of a name. A text is split at its dots unless a column has exactly that name.

    A sequence is used unchanged.
    """
    if not isinstance(name, str):
        path = tuple(name) if isinstance(name, Sequence) else ()
        if not path or not all(isinstance(step, str) for step in path):
            raise ConfigError(
                f"the name of a column is a text, or the texts of its path, not {name!r}",
                hint='pass "c", or ("c", "member") for a member of a ROW',
            )
        return path
    return (name,) if any(column.name == name for column in columns) else tuple(name.split("."))


def edit_type(columns: tuple[Field, ...], path: Path, edit: Callable[[DataType], DataType]) -> tuple[Field, ...]:
    """Return the columns with the type at the path changed by `edit`."""
    # The columns of a table are edited like the members of a ROW.
    return _members(_edited(RowType(columns), path, edit, path))


def edit_members(
    columns: tuple[Field, ...], path: Path, edit: Callable[[tuple[Field, ...]], tuple[Field, ...]]
) -> tuple[Field, ...]:
    """Return the columns with the list of members changed by `edit` that the last component of the path belongs to.

    The member itself need not exist yet.
    """

    def inside(type_: DataType) -> DataType:
        if not isinstance(type_, RowType):
            raise ConfigError(
                f"{'.'.join(path[:-1])!r} has no members",
                column=".".join(path),
                hint="only columns of type ROW have members",
            )
        return replace(type_, fields=edit(type_.fields))

    return _members(_edited(RowType(columns), path[:-1], inside, path))


def edit_field(columns: tuple[Field, ...], path: Path, edit: Callable[[Field], Field]) -> tuple[Field, ...]:
    """Return the columns with the column at the path changed by `edit`."""

    def edited(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        place = place_of(fields, path)
        return (*fields[:place], edit(fields[place]), *fields[place + 1 :])

    return edit_members(columns, path, edited)


def place_of(fields: Sequence[Field], path: Path) -> int:
    """Return the index of the path's last component in a list of columns. Raise ConfigError if it is missing."""
    for place, field in enumerate(fields):
        if field.name == path[-1]:
            return place
    names = ", ".join(field.name for field in fields)
    raise ConfigError(f"the table has no column {'.'.join(path)!r}", hint=f"columns there are {names}")


def _members(type_: DataType) -> tuple[Field, ...]:
    assert isinstance(type_, RowType)
    return type_.fields


def _edited(type_: DataType, path: Path, edit: Callable[[DataType], DataType], whole: Path) -> DataType:
    if not path:
        return edit(type_)
    match type_:
        case RowType(fields):
            place = place_of(fields, path[:1])
            member = fields[place]
            changed = replace(member, type=_edited(member.type, path[1:], edit, whole))
            return replace(type_, fields=(*fields[:place], changed, *fields[place + 1 :]))
        case ArrayType(element) if path[0] == "element":
            return replace(type_, element=_edited(element, path[1:], edit, whole))
        case MapType(_, value) if path[0] == "value":
            return replace(type_, value=_edited(value, path[1:], edit, whole))
    raise ConfigError(
        f"the table has no column {'.'.join(whole)!r}",
        hint="a path names members of a ROW, `element` of an ARRAY or `value` of a MAP",
    )


def number_columns(columns: tuple[Field, ...]) -> tuple[tuple[Field, ...], int]:
    """Return the columns of a new table with their ids, and the highest id.

    A column's id is lower than its members' ids.
    """
    numbered: list[Field] = []
    highest = -1
    for column in columns:
        # Readers need only distinct ids. The order is Java's, so that both create equal schemas.
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
