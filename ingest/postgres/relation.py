"""A table as its columns are at one place of the log, or now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from penstock.formats.change import SourceField, SourceSchema
from penstock.ingest.postgres.types import PgType

Identity = Literal["d", "n", "f", "i"]  # as in pg_class.relreplident: default, nothing, full, index
FULL: Identity = "f"


@dataclass(frozen=True)
class Column:
    """One column. `in_identity`: updates and deletes contain its old value."""

    name: str
    type: PgType
    in_identity: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class Relation:
    """A table with its columns in order; `key` is its primary key."""

    oid: int
    schema: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    identity: Identity = "d"
    comment: str | None = None

    @property
    def name(self) -> tuple[str, str]:
        return self.schema, self.table

    @property
    def qualified(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def is_binary(self) -> bool:
        """True if the values of all columns are decoded from the binary format."""
        return all(column.type.is_binary for column in self.columns)

    @cached_property
    def source_schema(self) -> SourceSchema:
        """The columns as a pipeline sees them.

        Only key columns are NOT NULL: a delete contains no other column, unless the replica identity is FULL.
        """
        fields = tuple(
            SourceField(one.name, str(one.type), one.comment, nullable=one.name not in self.key) for one in self.columns
        )
        return SourceSchema("postgres", self.schema, self.table, fields, self.key, self.comment)


@dataclass(frozen=True, slots=True)
class LoggedColumn:
    name: str
    oid: int
    modifier: int
    in_identity: bool


@dataclass(frozen=True, slots=True)
class LoggedRelation:
    """A table as a Relation message describes it: types are numbers."""

    oid: int
    schema: str
    table: str
    identity: Identity
    columns: tuple[LoggedColumn, ...]
