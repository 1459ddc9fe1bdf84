"""INSERT, UPDATE, DELETE and MERGE as values. Queries, conditions and values are kept as the user's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Names: TypeAlias = tuple[str, ...]
# What is set, a column or the path to a field of a struct, and the text of its value. A value of VALUES has no path.
Assignments: TypeAlias = tuple[tuple[Names, str], ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO or INSERT OVERWRITE. A value of `partition` is the text of an expression, or None for a column."""

    name: Names
    query: str
    overwrite: bool = False
    columns: tuple[str, ...] | None = None
    partition: Mapping[str, str | None] = field(default_factory=dict)
    by_name: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE."""

    name: Names
    alias: str | None
    assignments: Assignments
    where: str | None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM."""

    name: Names
    alias: str | None
    where: str | None


@dataclass(frozen=True, slots=True)
class MergeClause:
    """A WHEN clause of MERGE INTO.

    `rows` are "matched", "not matched" or "not matched by source"; `action` is "update", "delete" or "insert". Without
    assignments an update or insert sets all columns from the source (`*`).
    """

    rows: str
    action: str
    condition: str | None
    assignments: Assignments | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE INTO. `source` is the text of a table or of a query in brackets."""

    name: Names
    alias: str | None
    source: str
    source_alias: str
    on: str
    clauses: tuple[MergeClause, ...]
