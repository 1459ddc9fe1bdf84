"""What a table is: its columns and key, as the catalog, the log or the tracked DDL tells."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.formats.change import SourceField, SourceSchema
from penstock.ingest.mysql.types import MySqlType


@dataclass(frozen=True, slots=True)
class Column:
    """`charset` is None where the type has no characters; `comment` None where nobody told of it."""

    name: str
    type: MySqlType
    nullable: bool = True
    charset: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class TableDefinition:
    database: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    default_charset: str | None = field(default=None, compare=False)

    @property
    def name(self) -> tuple[str, str]:
        return self.database, self.table

    @property
    def qualified(self) -> str:
        return f"{self.database}.{self.table}"

    def column(self, name: str) -> Column | None:
        """By name as MySQL compares it: without regard to case."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)

    def has_in_key(self, column: str) -> bool:
        return column.lower() in {name.lower() for name in self.primary_key}


def schema_of(definition: TableDefinition) -> SourceSchema:
    """The source schema that rows of this table have, from the snapshot and from the log alike."""
    fields = tuple(
        SourceField(column.name, str(column.type), column.comment, column.nullable) for column in definition.columns
    )
    return SourceSchema(
        "mysql", definition.database, definition.table, fields, definition.primary_key, definition.comment
    )
