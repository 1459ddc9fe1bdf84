"""The changes that turn the type of a column into another one: members of rows, arrays and maps change one by one."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import ConfigError
from penstock.table.schema.changes import (
    AddColumn,
    DropColumn,
    SchemaChange,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnType,
)
from penstock.table.schema.members import Path
from penstock.table.schema.type_text import written
from penstock.table.values.types import ArrayType, DataType, MapType, RowType, with_nullability


def type_changes(path: Path, old: DataType, new: DataType) -> Iterator[SchemaChange]:
    """Yield the changes that make the type at the path the new one. Members of a ROW are matched by their names."""
    match old, new:
        case RowType(), RowType():
            yield from _members(path, old, new)
        case ArrayType(), ArrayType():
            yield from type_changes((*path, "element"), old.element, new.element)
        case MapType(), MapType() if _same(old.key, new.key):
            yield from type_changes((*path, "value"), old.value, new.value)
        case _ if not _same(old, new):
            yield UpdateColumnType(path, written(with_nullability(new, nullable=True)), keep_nullability=True)
    if old.nullable != new.nullable:
        yield UpdateColumnNullability(path, new.nullable)


def _members(path: Path, old: RowType, new: RowType) -> Iterator[SchemaChange]:
    before = {member.name: member for member in old.fields}
    names = [member.name for member in new.fields]
    kept = [name for name in names if name in before]
    if kept != [name for name in before if name in names]:
        raise ConfigError(
            f"members of {'.'.join(path)!r} cannot change their order",
            members=", ".join(before),
            hint="name the members that exist in the order that they have",
        )
    previous: str | None = None
    for member in new.fields:
        inside = (*path, member.name)
        if member.name not in before:
            yield AddColumn(inside, member.type, member.description, first=previous is None, after=previous)
        else:
            yield from type_changes(inside, before[member.name].type, member.type)
            if member.description is not None and member.description != before[member.name].description:
                yield UpdateColumnComment(inside, member.description)
        previous = member.name
    # Behind the additions, since a ROW always has a member.
    for name in before:
        if name not in names:
            yield DropColumn((*path, name))


def _same(old: DataType, new: DataType) -> bool:
    return written(with_nullability(old, nullable=True)) == written(with_nullability(new, nullable=True))
