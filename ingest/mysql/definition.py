"""The definition of a table: its columns and key, from the catalog, the binlog or tracked DDL."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.formats.change import SourceField, SourceSchema
from penstock.ingest.mysql.types import MySqlType


@dataclass(frozen=True, slots=True)
class MySqlColumn:
    """A column. `charset` is None for types without characters; `comment` is None if unknown."""

    name: str
    type: MySqlType
    nullable: bool = True
    charset: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The columns and keys of a table at one moment."""

    database: str
    table: str
    columns: tuple[MySqlColumn, ...]
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    default_charset: str | None = field(default=None, compare=False)

    @property
    def name(self) -> tuple[str, str]:
        return self.database, self.table

    @property
    def qualified(self) -> str:
        return f"{self.database}.{self.table}"

    def column(self, name: str) -> MySqlColumn | None:
        """Return the column of this name, compared as MySQL does: case-insensitively."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)

    def has_in_key(self, column: str) -> bool:
        return column.lower() in {name.lower() for name in self.primary_key}


def schema_of(definition: TableDefinition) -> SourceSchema:
    """Return the source schema of this table's rows, which is the same for snapshot and binlog."""
    fields = tuple(
        SourceField(column.name, str(column.type), column.comment, column.nullable) for column in definition.columns
    )
    return SourceSchema(
        "mysql", definition.database, definition.table, fields, definition.primary_key, definition.comment
    )
