"""Choices of the captured tables; plain data that can be sent to a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class TableChoice(Protocol):
    """The choice of captured tables. Called once per table; must pickle."""

    def includes(self, database: str, table: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class EveryTable:
    """The choice of all tables."""

    def includes(self, database: str, table: str) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class AllBut:
    """A choice without the tables in `names`."""

    choice: TableChoice
    names: frozenset[tuple[str, str]]

    def includes(self, database: str, table: str) -> bool:
        return (database, table) not in self.names and self.choice.includes(database, table)


@dataclass(frozen=True, slots=True)
class TheseTables:
    """The choice of the tables in `names`."""

    names: frozenset[tuple[str, str]]

    def includes(self, database: str, table: str) -> bool:
        return (database, table) in self.names
