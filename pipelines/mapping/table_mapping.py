"""The interface between the job and schema evolution.

It determines the target table of a change, the fit of its rows, and the drift of its schema.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.formats.change import BadRecord, Bools, ChangeBatch, DecodeOptions, RowBatch, SourceSchema
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.pipelines.mapping.lookup_run import LookupRun
from penstock.schema_evolution.expectations import CheckedRows
from penstock.schema_evolution.fit import FittedRows
from penstock.table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class SeenSchema:
    """Drift: a source schema that the table, as the task knew it, cannot store.

    Small, because it is sent to the driver.
    """

    table: str
    schema: SourceSchema
    first: tuple[int, int]  # range number and position: schemas are folded in this order
    place: str | None = None  # the place of the range, for errors
    by_message: bool = False  # a message may declare anything, a binlog only declares what exists


class TableMapping(Protocol):
    """Maps source changes to target tables.

    Contains settings only, so it pickles. Tasks call it; only the driver calls `evolved`.
    """

    def decode_options(self, known: Mapping[str, TableSchema]) -> DecodeOptions: ...

    def target(self, database: str | None, table: str | None) -> str | None:
        """Return `database.table` in the warehouse, or None if the source table is left out."""
        ...

    def column(self, source: str) -> str:
        """Return the name that a source column has in its target table."""
        ...

    def marks_deletes(self, database: str | None, table: str | None) -> bool:
        """Return whether deleted rows of a source table stay in the target table, marked as deleted."""
        ...

    def keeps_versions(self, database: str | None, table: str | None) -> bool:
        """Return whether the target table of a source table has every version of its rows."""
        ...

    @property
    def made(self) -> set[str]:
        """The columns that no source has: computed and metadata columns."""
        ...

    @property
    def dimensions(self) -> frozenset[str]:
        """The tables in which columns are looked up."""
        ...

    @property
    def reads_places(self) -> bool:
        """True if the rows of a message may depend on where it is in the source, or on its other parts."""
        ...

    def transformed(
        self,
        change: ChangeBatch,
        fetched: FetchedMessages | None,
        now_millis: int,
        lookups: LookupRun | None = None,
        stream: str = "",
    ) -> tuple[ChangeBatch, tuple[BadRecord, ...]]:
        """Return the change after lookups, filters, projections and masks, and the messages for which these failed.

        `lookups` names the snapshots of the dimensions, and counts. `stream` names the stream of positions.
        """
        ...

    def checked(self, change: ChangeBatch, fetched: FetchedMessages | None, now_millis: int) -> CheckedRows:
        """Return the rows of a transformed change that meet the quality rules of its table."""
        ...

    def leaves_out(self, source: SourceSchema, table: TableSchema | None) -> bool:
        """Return whether rows of this source are left out because it has no key; `table` is None if it is missing."""
        ...

    def fit(
        self, change: ChangeBatch, table: TableSchema, fetched: FetchedMessages | None, now_millis: int
    ) -> FittedRows | None:
        """Return the fitted rows, or None if the table lacks a column or a type that the change needs (drift).

        `now_millis` is the batch's fixed instant, the same when the batch is read again.
        """
        ...

    def left_out(self, change: ChangeBatch, table: TableSchema, fetched: FetchedMessages | None) -> tuple[str, ...]:
        """Return the columns that the source omits from updates and that therefore become null."""
        ...

    def unordered_deletes(self, rows: RowBatch, source: SourceSchema, table: TableSchema) -> Bools:
        """Return which fitted rows are deletes without effect, as they have only their key and no sequence.field."""
        ...

    def adopt(self, known: Collection[str]) -> None:
        """At the start of a run, alter existing tables to match the settings.

        Raise ConfigError where they contradict each other. Called again, it changes nothing.
        """
        ...

    def check_adoption(self, known: Collection[str]) -> None:
        """Raise the errors of `adopt` without altering a table."""
        ...

    def commented(self, table: str, seen: Sequence[SeenSchema]) -> TableSchema | None:
        """Return the table with the newest column comments of each source table, or None if nothing changes."""
        ...

    def nonsense(self, source: SourceSchema, table: TableSchema | None) -> str | None:
        """Return why messages that declare this schema are bad records instead of drift, or None if they are drift."""
        ...

    def foreseen(self, table: str, current: TableSchema, source: SourceSchema) -> TableSchema | None:
        """Return the schema that `evolved` would create for one more source schema, without creating it.

        Return None if `evolved` would refuse.
        """
        ...

    def planned(self, table: str, sources: Sequence[SourceSchema], now: int) -> TableSchema:
        """Return the first schema of a table that does not exist yet."""
        ...

    def evolved(self, table: str, current: TableSchema | None, seen: Sequence[SeenSchema]) -> TableSchema:
        """Create or alter the table so that it can store all these schemas, and return its newest version."""
        ...
