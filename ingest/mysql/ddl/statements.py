"""DDL statements as their effects on tables. A statement that affects no table's columns or rows has no effect here."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ingest.mysql.ddl.alter_changes import Change
from penstock.ingest.mysql.ddl.column_definition import ParsedColumn

Name = tuple[str, str]
SEQUENCE, SYSTEM_VERSIONED = "sequence", "system versioned"


@dataclass(frozen=True, slots=True)
class CreateTableStatement:
    """`like` names the table whose definition is copied; `columns` is None if the text does not contain them.

    `left_out` is the reason why the rows of this table cannot be captured.
    """

    name: Name
    columns: tuple[ParsedColumn, ...] | None
    primary_key: tuple[str, ...] = ()
    like: Name | None = None
    charset: str | None = None
    comment: str | None = None
    keep_existing: bool = False
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class DropTablesStatement:
    names: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class RenameTablesStatement:
    """Renames as pairs, in the order in which they take effect."""

    pairs: tuple[tuple[Name, Name], ...]


@dataclass(frozen=True, slots=True)
class TruncateTableStatement:
    name: Name


@dataclass(frozen=True, slots=True)
class AlterTableStatement:
    """`is_strict`: the statement failed if a value did not fit into its new type."""

    name: Name
    changes: tuple[Change, ...]
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class DropDatabaseStatement:
    database: str


@dataclass(frozen=True, slots=True)
class DatabaseCharset:
    database: str
    charset: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """A statement about this table that could not be parsed: its definition has to be looked up again."""

    name: Name
    reason: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A statement about tables or databases whose names could not be parsed: nothing is known of what it changed."""

    reason: str


Statement = (
    CreateTableStatement
    | DropTablesStatement
    | RenameTablesStatement
    | TruncateTableStatement
    | AlterTableStatement
    | DropDatabaseStatement
    | DatabaseCharset
    | Unclear
    | Unreadable
)


def subjects(statement: Statement) -> list[Name]:
    """Return the tables that the statement names; the tables of a whole database are not listed."""
    match statement:
        case DropTablesStatement(names):
            return list(names)
        case RenameTablesStatement(pairs):
            return [name for pair in pairs for name in pair]
        case DropDatabaseStatement() | DatabaseCharset() | Unreadable():
            return []
    return [statement.name]
