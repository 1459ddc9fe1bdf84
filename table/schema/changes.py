"""Changes of a table's schema, and the changes that Paimon refuses.

A nested column is named by its path, `address.city` or ("address", "city"); `members.py` describes the paths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.errors import ConfigError
from penstock.table.schema.column_changes import (
    Place,
    add_column,
    describe_column,
    drop_column,
    move_column,
    rename_column,
    retype_column,
    set_default,
    set_nullability,
)
from penstock.table.schema.flink_columns import with_flink_columns
from penstock.table.schema.members import path_of
from penstock.table.schema.new_schema import TypeLike, with_keys_not_null
from penstock.table.schema.option_changes import reset_option, set_option
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import read_type
from penstock.table.schema.validation import check_schema
from penstock.table.values.arguments import option_texts

Name: TypeAlias = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column at the end, or `first`, or `after` or `before` another one. It is null in rows written earlier."""

    name: Name
    type: TypeLike
    comment: str | None = None
    first: bool = False
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """The removal of a column."""

    name: Name


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A new name for a column. `to` is the new name alone, not a path."""

    name: Name
    to: str


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """A new type for a column. Files written earlier are read through a cast.

    With `keep_nullability` the column stays NOT NULL or nullable, even if the new type differs in that.
    """

    name: Name
    type: TypeLike
    keep_nullability: bool = False


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """The change of a column to nullable or NOT NULL."""

    name: Name
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    """A new comment for a column, or None to remove the comment."""

    name: Name
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault:
    """A new default for a column: the text of the value that replaces null on write. None removes the default."""

    name: Name
    default: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition:
    """A new position for a column of the table."""

    name: str
    first: bool = False
    last: bool = False
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class SetOption:
    """A new value for an option of the table."""

    key: str
    value: str

    def __post_init__(self) -> None:
        [text] = option_texts({self.key: self.value}).values()
        # The dataclass is frozen, and the caller may pass a number or a boolean.
        object.__setattr__(self, "value", text)


@dataclass(frozen=True, slots=True)
class ResetOption:
    """The removal of an option of the table; with `if_exists` a key that is no option is left out."""

    key: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class UpdateComment:
    """A new comment for the table, or None to remove the comment."""

    comment: str | None


SchemaChange: TypeAlias = (
    AddColumn
    | DropColumn
    | RenameColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnDefault
    | UpdateColumnPosition
    | SetOption
    | ResetOption
    | UpdateComment
)
# Of a version and the version before it.
Check: TypeAlias = Callable[[TableSchema, TableSchema], object]


def evolve(
    files: SchemaFiles, changes: Sequence[SchemaChange], has_snapshots: bool, now: int, check: Check | None = None
) -> TableSchema:
    """Create the next schema version by applying the changes to the newest one, and return it.

    If the changes change nothing, the newest version is returned. If another writer creates a version concurrently, the
    changes are applied to that version instead. If the process dies before the file exists, nothing has changed.
    `check` may refuse the new version for reasons that this package does not know.
    """
    while True:
        newest = files.latest()
        if newest is None:
            raise ConfigError(
                "the table does not exist", file=files.path(0), hint="create the table first, or correct its path"
            )
        changed = apply_changes(newest, changes, has_snapshots, now)
        if changed is newest:
            return newest
        if check is not None:
            check(changed, newest)
        # False means that another writer created this id first. Each lost round means that another change succeeded,
        # so the loop needs no limit.
        if files.create(changed):
            return changed


def apply_changes(schema: TableSchema, changes: Sequence[SchemaChange], has_snapshots: bool, now: int) -> TableSchema:
    """Return the next schema version, or `schema` itself when nothing changes.

    Raise ConfigError if Paimon refuses a change.
    """
    changed = schema
    for change in changes:
        changed = apply_change(changed, change, has_snapshots)
    changed = with_flink_columns(changed, schema)
    # Compared before id and time change, which would make every version different.
    if changed == schema:
        return schema
    changed = replace(
        changed,
        id=schema.id + 1,
        # Setting the option primary-key may have made a nullable column part of the key.
        fields=with_keys_not_null(changed.fields, changed.primary_keys),
        time_millis=now,
        # parse_schema made the defaults of older releases explicit, so an old table can continue in the current
        # version.
        version=3,
    )
    check_schema(changed, schema)
    return changed


def apply_change(schema: TableSchema, change: SchemaChange, has_snapshots: bool) -> TableSchema:
    """Return the schema with one change, which may be invalid until the changes after it are applied too."""
    match change:
        case SetOption(key, value):
            return set_option(schema, key, value, has_snapshots)
        case ResetOption(key, if_exists):
            return reset_option(schema, key, has_snapshots, if_exists)
        case UpdateComment(comment):
            return replace(schema, comment=comment)
        case UpdateColumnPosition(name):
            return move_column(schema, name, Place(change.first, change.last, change.after, change.before))
    # All changes below concern a column, whose name may be a path.
    path = path_of(change.name, schema.fields)
    match change:
        case AddColumn(_, type_, comment):
            place = Place(change.first, after=change.after, before=change.before)
            return add_column(schema, path, read_type(type_), comment, place)
        case DropColumn():
            return drop_column(schema, path)
        case RenameColumn(_, to):
            return rename_column(schema, path, to)
        case UpdateColumnType(_, type_, keep_nullability):
            return retype_column(schema, path, read_type(type_), keep_nullability, has_snapshots)
        case UpdateColumnNullability(_, nullable):
            return set_nullability(schema, path, nullable)
        case UpdateColumnComment(_, comment):
            return describe_column(schema, path, comment)
        case UpdateColumnDefault(_, default):
            return set_default(schema, path, default)
