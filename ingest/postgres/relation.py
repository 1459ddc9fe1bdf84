"""A table with its columns and their types, at one place of the log or now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from penstock.formats.change import SourceField, SourceSchema

MAX_PRECISION = 38  # of decimal128 and of Paimon; a wider column is text
TEXTS = frozenset({"text", "varchar", "char", "name", "json", "xml", "citext", "enum"})
_BINARY = TEXTS | {
    "bool", "int2", "int4", "int8", "float4", "float8", "numeric", "bytea", "date", "time", "timestamp",
    "timestamptz", "uuid", "jsonb", "bit", "varbit",
}  # fmt: skip
# The one-byte type "char" is not CHAR: its binary format has a NUL for the empty text.
_NAMES = {"bpchar": "char", "char": '"char"'}
_HEADER = 4  # the modifier of a length includes the length word
_UNBOUNDED = (MAX_PRECISION, 18)


@dataclass(frozen=True, slots=True)
class PgType:
    """A type such as `numeric(12,2)` or `int4[]`. Domains are their base types, and all enums are `enum`."""

    name: str
    size: int | None = None
    scale: int | None = None
    element: PgType | None = None

    def __str__(self) -> str:
        if self.element is not None:
            return f"{self.element}[]"
        if self.size is None:
            return self.name
        return f"{self.name}({self.size})" if self.scale is None else f"{self.name}({self.size},{self.scale})"

    @classmethod
    def of(cls, name: str, modifier: int = -1) -> PgType:
        """Return the type of a name in `pg_type` and a type modifier; -1 is no modifier."""
        name = _NAMES.get(name, name)
        if modifier < 0:
            return cls(name, 1) if name == "bit" else cls(name)
        if name in {"char", "varchar"}:
            return cls(name, modifier - _HEADER)
        if name == "numeric":
            # The precision is in the upper 16 bits, the scale in the lowest 11.
            scale = (modifier - _HEADER) & 0x7FF
            return cls(name, (modifier - _HEADER) >> 16 & 0xFFFF, (scale ^ 1024) - 1024)  # 11 bits with sign
        sized = {"bit", "varbit", "time", "timestamp", "timestamptz"}
        return cls(name, modifier) if name in sized else cls(name)

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale of a NUMERIC as a decimal; None if it is stored as text."""
        if self.size is None:
            return _UNBOUNDED
        scale = self.scale or 0
        return (self.size, scale) if self.size <= MAX_PRECISION and 0 <= scale <= self.size else None

    @property
    def is_binary(self) -> bool:
        """True if values are decoded from the binary format; values of other types are read as text."""
        if self.element is not None:
            return self.element.element is None and self.element.is_binary
        return self.name in _BINARY and (self.name != "numeric" or self.decimal is not None)


# As in pg_class.relreplident: default, nothing, full, index.
Identity = Literal["d", "n", "f", "i"]
FULL: Identity = "f"


@dataclass(frozen=True)
class Column:
    """One column. `in_identity`: updates and deletes contain its old value."""

    name: str
    type: PgType
    in_identity: bool = False
    comment: str | None = None


class NeedsText(Exception):
    """A table in the log has a type whose binary values are not decoded: its range is read again as text."""


@dataclass(frozen=True)
class Relation:
    """A table with its columns in order; `key` is its primary key, `kind` as in pg_class."""

    oid: int
    schema: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    identity: Identity = "d"
    comment: str | None = None
    kind: str = "r"

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
            SourceField(column.name, str(column.type), column.comment, nullable=column.name not in self.key)
            for column in self.columns
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
