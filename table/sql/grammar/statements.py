"""SQL statements as values: the request of a user, before names and types are looked up.

Queries, conditions and values are kept as the user's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.table.sql.grammar.row_statements import Delete, Insert, Merge, Names, Update
from penstock.table.sql.grammar.session_statements import (
    CreateCatalog,
    DropCatalog,
    SessionOption,
    StatementSet,
    StatementSetEnd,
    Use,
    View,
)
from penstock.table.sql.grammar.table_statements import (
    AlterTable,
    Analyze,
    CreateTable,
    CreateTag,
    CreateView,
    DeleteTag,
    DropPartitions,
    DropTable,
    DropView,
    RenameTable,
    RenameTag,
    RenameView,
    TruncateTable,
)


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A SELECT or another statement that DuckDB answers."""

    text: str


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
class CallProcedure:
    """CALL of a procedure: its name, its arguments as texts of values by position or by name, and a catalog."""

    name: str
    positional: tuple[str, ...]
    named: Mapping[str, str]
    catalog: str | None = None


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
    | CreateView
    | RenameView
    | DropView
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
