"""The input of a read task: its part of the batch, and its access to the source and the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.freshness import Reading
from penstock.ingest.joined_ranges import MOST_BYTES
from penstock.ingest.source import Offsets, Range
from penstock.pipelines.mapping.table_mapping import TableMapping
from penstock.pipelines.mapping.target_tables import Versions
from penstock.pipelines.tasks.bad_records import ErrorPolicy
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class TaskInput:
    """One read task's part of a batch.

    `only`: in a replay, the tables that are read again. `late`: the batch is read for tables that were parked when it
    was first read; dead letters for its unreadable messages were written then. `readings`: the tables that a range is
    read for, by its number; without an entry, all.
    """

    ranges: tuple[Range, ...]
    versions: Versions
    now_millis: int
    span: tuple[Offsets, Offsets] | None = None
    only: frozenset[str] | None = None
    left_out: frozenset[str] = frozenset()
    late: bool = False
    lookups: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # snapshots of the dimensions, and marks
    readings: Mapping[int, Reading] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """A read task's input, together with what it needs to turn its ranges into rows of the target tables.

    If the policy for errors isolates tables, a table's failure is reported, and the other tables are still read.
    Ranges that are read together have at most `joined_bytes`.
    """

    task: TaskInput
    source: ChangeSource
    mapping: TableMapping
    warehouse: CatalogSettings
    writers: int
    errors: ErrorPolicy
    joined_bytes: int = MOST_BYTES

    @property
    def schemas(self) -> Mapping[str, TableSchema]:
        """The schemas of the target tables that exist."""
        versions = self.task.versions.items()
        return {table: self.warehouse.layout(table, version.schema).schema for table, version in versions}

    def layout(self, table: str) -> Layout | None:
        """Return the layout of a target table, or None if it does not exist."""
        version = self.task.versions.get(table)
        return None if version is None else self.warehouse.layout(table, version.schema)

    def reads(self, table: str) -> bool:
        """Return whether rows of this table are read: in a replay, only some tables are."""
        return self.task.only is None or table in self.task.only

    @property
    def keeps_letters(self) -> bool:
        """True if this reading writes the dead letters.

        It then writes the dead letters of all tables, even if it reads for some tables only.
        """
        letters = self.errors.on_bad.table
        return letters is not None and self.reads(letters)
