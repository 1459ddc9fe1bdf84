"""The format in which the log of a pipeline is read, kept as long as its tables have the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.ingest.postgres.captured_tables import captured
from penstock.ingest.postgres.server.catalog import relations
from penstock.ingest.postgres.server.connection import kept_connected

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.settings import PgSettings

Columns = tuple[int, int, int]


@dataclass(slots=True)
class LogFormat:
    """Knows whether all columns of captured tables are decoded from the binary format.

    A stream has one format for all values, so one column of another type decides for all. A reader that finds such a
    column reads the log again as text, so that the answer may be as old as the last plan.
    """

    settings: PgSettings
    _tables: Sequence[PgTableFacts] | None = field(default=None, repr=False)
    _known: dict[Columns, bool] = field(default_factory=dict, repr=False)

    def planned(self, tables: Sequence[PgTableFacts]) -> None:
        """Note the captured tables of a plan."""
        self._tables = tables

    def is_binary(self) -> bool:
        tables = self._tables
        if tables is None or not all(_columns(table) in self._known for table in tables):
            tables = self._look(tables)
        return all(self._known[_columns(table)] for table in tables)

    def _look(self, tables: Sequence[PgTableFacts] | None) -> Sequence[PgTableFacts]:
        """Look at the columns of these tables, or without a plan of all that are captured now."""
        with kept_connected(self.settings.server) as connection:
            tables = captured(connection, self.settings) if tables is None else tables
            found = relations(connection, [table.oid for table in tables])
        # A table that was dropped in the meantime has no columns.
        self._known = {_columns(table): table.oid not in found or found[table.oid].is_binary for table in tables}
        return tables


def _columns(table: PgTableFacts) -> Columns:
    """Return what is another value as soon as a column of a table is added or gets another type."""
    return table.oid, table.columns, table.marks
