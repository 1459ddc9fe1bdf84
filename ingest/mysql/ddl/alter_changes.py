"""The changes that ALTER TABLE makes to columns, key and rows, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.ingest.mysql.ddl.column_definition import ParsedColumn

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AddColumnClause:
    parsed: ParsedColumn


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """MODIFY and CHANGE: `old` is replaced by the parsed column, at the same place unless a position is given."""

    old: str
    parsed: ParsedColumn
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumnClause:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropColumnClause:
    name: str


@dataclass(frozen=True, slots=True)
class SetPrimaryKey:
    """A new primary key; empty if the key is dropped."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetCharset:
    """The table's default charset; with `convert` also the charset of its columns. None is the database's default."""

    charset: str | None
    convert: bool = False


@dataclass(frozen=True, slots=True)
class SetComment:
    comment: str | None


@dataclass(frozen=True, slots=True)
class RowsMoved:
    """Rows move without being logged: partitions dropped, truncated, exchanged; tablespaces imported; duplicates lost.

    `other` is the table on the other side: rows are `exchanged` with it, it is `made` from them, or is `gone` because
    its rows moved into this table.
    """

    action: str
    other: Name | None = None
    becomes: Literal["exchanged", "made", "gone"] = "exchanged"

    @property
    def brings_rows(self) -> bool:
        return self.action.startswith(("EXCHANGE", "IMPORT", "CONVERT TABLE"))

    @property
    def removes_rows(self) -> bool:
        """Return whether rows leave this table, or may be others than before."""
        return self.action != "CONVERT TABLE"


@dataclass(frozen=True, slots=True)
class KeepHistory:
    """ADD SYSTEM VERSIONING, or DROP SYSTEM VERSIONING."""

    kept: bool


Change = (
    KeepHistory
    | AddColumnClause
    | ChangeColumn
    | RenameColumnClause
    | DropColumnClause
    | SetPrimaryKey
    | SetCharset
    | SetComment
    | RowsMoved
)
