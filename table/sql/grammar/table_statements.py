"""Statements that create, change and delete tables and their tags, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.table.schema.changes import SchemaChange
from penstock.table.sql.grammar.row_statements import Names
from penstock.table.values.types import DataType, Field

# The kinds of options that LIKE copies: those of the table, Flink's computed columns, and its watermark.
LIKE_OPTIONS = frozenset({"options", "generated", "watermarks"})


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE with columns, LIKE another table, or AS a query.

    With `path` the table is in this folder, and only the session knows its name. `replaces` is "any" for OR REPLACE,
    and "existing" for REPLACE TABLE. A temporary table of another system has its `connector`.
    """

    name: Names
    if_not_exists: bool
    columns: tuple[Field, ...]
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None = None
    like: Names | None = None
    like_options: frozenset[str] = LIKE_OPTIONS
    query: str | None = None
    path: str | None = None
    replaces: str | None = None
    connector: str | None = None


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE. A `temporary` one is only a table of the session."""

    name: Names
    if_exists: bool
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE VIEW of a view that the catalog keeps, or ALTER VIEW ... AS, with its columns and their comments.

    `replaces` is "any" for OR REPLACE, and "existing" for ALTER VIEW, which keeps the comment and the options.
    """

    name: Names
    query: str
    columns: tuple[tuple[str, str | None], ...] = ()
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class RenameView:
    """ALTER VIEW ... RENAME TO."""

    name: Names
    if_exists: bool
    new_name: Names


@dataclass(frozen=True, slots=True)
class DropView:
    """DROP VIEW of a view that the catalog keeps."""

    name: Names
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """ALTER TABLE ... MODIFY: the new description of the column. A part without a value does not change.

    `says_null` if the word NULL is written, and not only NOT NULL left out.
    """

    name: Names
    type: DataType
    comment: str | None
    default: str | None
    first: bool
    after: str | None
    says_null: bool = False


@dataclass(frozen=True, slots=True)
class SetWatermark:
    """ALTER TABLE ... ADD or MODIFY WATERMARK, which keeps a watermark for Flink."""

    column: str
    expression: str
    adds: bool


@dataclass(frozen=True, slots=True)
class DropWatermark:
    """ALTER TABLE ... DROP WATERMARK."""


TableChange: TypeAlias = SchemaChange | ModifyColumn | SetWatermark | DropWatermark


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE that changes the schema, as one new version of it."""

    name: Names
    if_exists: bool
    changes: tuple[TableChange, ...]


@dataclass(frozen=True, slots=True)
class RenameTable:
    """ALTER TABLE ... RENAME TO."""

    name: Names
    if_exists: bool
    new_name: Names


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """ALTER TABLE ... DROP PARTITION, where each partition must exist unless IF EXISTS is given, or TRUNCATE TABLE."""

    name: Names
    partitions: tuple[Mapping[str, str | None], ...]
    must_exist: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """TRUNCATE TABLE."""

    name: Names


@dataclass(frozen=True, slots=True)
class Analyze:
    """ANALYZE TABLE; of all columns, unless some are named."""

    name: Names
    columns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class CreateTag:
    """ALTER TABLE ... CREATE TAG, REPLACE TAG or CREATE OR REPLACE TAG.

    Without a snapshot it is the newest one. `retained` is a duration as text.
    """

    name: Names
    tag: str
    snapshot: int | None
    retained: str | None
    creates: bool
    replaces: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DeleteTag:
    """ALTER TABLE ... DELETE TAG."""

    name: Names
    tag: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameTag:
    """ALTER TABLE ... RENAME TAG."""

    name: Names
    tag: str
    new: str
