"""SQL statements as values: the request of a user, before names and types are looked up.

Queries, conditions and values are kept as the user's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.table.schema.changes import SchemaChange
from penstock.table.sql.grammar.cursor import TextPlace
from penstock.table.sql.grammar.row_statements import Delete, Insert, Merge, Names, Update
from penstock.table.values.types import DataType, Field


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A SELECT or another statement that DuckDB answers."""

    text: str


@dataclass(frozen=True, slots=True)
class View:
    """CREATE or DROP of a temporary view, which lives as long as the session."""

    name: str
    text: str
    dropped: bool = False
    must_exist: bool = False
    unless_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """CREATE DATABASE."""

    name: str
    if_not_exists: bool
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """ALTER DATABASE SET and UNSET, and COMMENT ON DATABASE; a property without value is removed."""

    name: str
    changes: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE with columns, LIKE another table, or AS a query.

    With `path` the table is in this folder, and only the session knows its name. `replaces` is "any" for OR REPLACE,
    and "existing" for REPLACE TABLE.
    """

    name: Names
    if_not_exists: bool
    columns: tuple[Field, ...]
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None = None
    like: Names | None = None
    like_options: bool = True
    query: str | None = None
    path: str | None = None
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE."""

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
class AlterTable:
    """ALTER TABLE that changes the schema, as one new version of it."""

    name: Names
    if_exists: bool
    changes: tuple[SchemaChange | ModifyColumn, ...]


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
class CallProcedure:
    """CALL of a procedure: its name, its arguments as texts of values by position or by name, and a catalog."""

    name: str
    positional: tuple[str, ...]
    named: Mapping[str, str]
    catalog: str | None = None


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


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW: catalogs, the current one, databases, tables, views, create, partitions, columns, tags and so on."""

    shown: str
    name: Names | None = None
    like: str | None = None
    key: str | None = None
    partition: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE of a table, one of its columns, or a database; EXTENDED shows more than the columns of a table."""

    name: Names
    database: bool = False
    extended: bool = False
    column: str | None = None


@dataclass(frozen=True, slots=True)
class CreateCatalog:
    """CREATE CATALOG, for the rest of the script."""

    name: str
    if_not_exists: bool
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DropCatalog:
    """DROP CATALOG."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Use:
    """USE: the database of names without one, in this catalog or in another."""

    database: str | None
    catalog: str | None = None


@dataclass(frozen=True, slots=True)
class SessionOption:
    """SET of a session option; without a value RESET, and without a key RESET of all options.

    SET alone, which lists the options that are set, has an empty value and no key.
    """

    key: str | None
    value: str | None


@dataclass(frozen=True, slots=True)
class StatementSet:
    """The beginning of a statement set, perhaps with its first INSERT and the place of that in the script."""

    first: str = ""
    place: TextPlace | None = None


@dataclass(frozen=True, slots=True)
class StatementSetEnd:
    """END of a statement set."""


Statement: TypeAlias = (
    SqlQuery
    | View
    | CreateCatalog
    | DropCatalog
    | CreateDatabase
    | AlterDatabase
    | DropDatabase
    | CreateTable
    | DropTable
    | AlterTable
    | RenameTable
    | DropPartitions
    | TruncateTable
    | Insert
    | Update
    | Delete
    | Merge
    | CallProcedure
    | Analyze
    | CreateTag
    | DeleteTag
    | RenameTag
    | Show
    | Describe
    | Use
    | SessionOption
    | StatementSet
    | StatementSetEnd
)
