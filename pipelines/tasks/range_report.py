"""The report on one range that its task sends to the driver beside the rows: counts, drift and failures, by table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.formats.change import BadRecord, Truncation
from penstock.ingest.freshness import Reading
from penstock.ingest.source import Barrier, Offsets, Range
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.tasks.task_stats import Seconds, no_seconds
from penstock.row_kinds import KIND_TEXTS, RowKinds

# Per range and table. Reports travel through Spark to the driver, so they contain the first bad records only.
MOST_BAD_SHOWN = 100


@dataclass(slots=True)
class BadRecords:
    """The number of bad records, and the first of them."""

    count: int = 0
    shown: list[BadRecord] = field(default_factory=list)

    def add(self, records: Sequence[BadRecord]) -> None:
        self.count += len(records)
        self.shown += records[: MOST_BAD_SHOWN - len(self.shown)]


@dataclass(frozen=True, slots=True)
class TableFailed:
    """A table's failure, reported between reading and writing, beside the rows of other tables."""

    table: str
    error: PenstockError


@dataclass(slots=True)
class TableReport:
    """The part of a range's report that concerns one target table."""

    rows: int = 0
    is_fitted: bool = False  # a change was fitted to the table, even if it had no rows
    kinds: list[int] = field(default_factory=lambda: [0] * len(KIND_TEXTS))  # rows by row kind
    sources: set[tuple[str, str]] = field(default_factory=set)  # database and table of the source tables
    dropped: int = 0  # -U and -D rows that an append table does not accept
    nulled: int = 0  # values made null by a rule
    inexact: int = 0  # values that a column cannot hold exactly
    partial: int = 0  # updates that lack columns of their rows
    omitted: tuple[str, ...] = ()  # the columns that the first such update lacks
    unordered: int = 0  # deletes without effect, as messages with only a key have no sequence.field
    unordered_at: str = ""  # the place of the first such delete
    never_added: int = 0  # old rows in a changelog that repeats its input, which a quality rule left out as new rows
    newest: int | None = None  # newest event time in milliseconds
    bad: BadRecords = field(default_factory=BadRecords)  # messages with values that do not fit
    drifts: list[SeenSchema] = field(default_factory=list)
    unfitted: int = 0  # rows with a schema that the table cannot store
    # the newest schema of each of its source tables whose columns have comments
    commented: dict[tuple[str, str], SeenSchema] = field(default_factory=dict)
    error: PenstockError | None = None  # why the table cannot accept the rows of this range

    def count(self, kinds: RowKinds) -> None:
        """Count rows to be written."""
        self.is_fitted = True
        self.rows += len(kinds)
        counts = np.bincount(kinds, minlength=len(KIND_TEXTS)).tolist()
        self.kinds = [before + more for before, more in zip(self.kinds, counts, strict=True)]

    def see(self, event_times: npt.NDArray[np.int64]) -> None:
        """Record the newest event time. Rows of a source snapshot have none."""
        # Rows without an event time have -1.
        newest = int(event_times.max()) if len(event_times) else -1
        if newest >= 0:
            self.newest = newest if self.newest is None else max(newest, self.newest)


@dataclass(slots=True)
class RangeReport:
    """The report of one range.

    Only the first range of a batch has a `span`: the offsets where the batch starts and ends. `reading` lists the
    tables that the range is read for; None stands for all tables.
    """

    range: Range
    span: tuple[Offsets, Offsets] | None = None
    reading: Reading | None = None
    messages: int = 0
    bytes: int = 0
    tables: dict[str, TableReport] = field(default_factory=dict)
    seconds: Seconds = field(default_factory=no_seconds)
    skipped: Counter[str] = field(default_factory=Counter)  # messages without rows, by operation
    expectations: Counter[str] = field(default_factory=Counter)  # rows that did not meet one, by expectation
    filtered: int = 0  # rows that transforms filter out, and rows of left-out tables
    keyless: set[tuple[str, tuple[str, str]]] = field(default_factory=set)  # target and source, left out without a key
    repaired: int = 0  # texts with unpaired surrogates
    missed: int = 0  # keys of rows that a dimension does not have
    lookups: dict[str, tuple[int, int]] = field(default_factory=dict)  # first and last snapshot by dimension
    bad: BadRecords = field(default_factory=BadRecords)  # messages that cannot be read
    # messages that this repeated reading cannot read, while another range of the batch reads them for the first time
    bad_too: BadRecords = field(default_factory=BadRecords)
    truncations: list[Truncation] = field(default_factory=list)
    barriers: list[Barrier] = field(default_factory=list)
    lacks_rows_of: set[tuple[str, str]] = field(default_factory=set)  # source tables to read again after the batch

    @property
    def is_again(self) -> bool:
        """True if an earlier batch has read these records for other tables."""
        return self.reading is not None and self.reading.is_again

    @property
    def intervals(self) -> frozenset[int]:
        """The intervals of the tables that the range is read for; 0 stands for tables that are not deferred."""
        return frozenset({0}) if self.reading is None else self.reading.intervals

    def is_read_for(self, tables: Collection[str], letters: Collection[str]) -> bool:
        """Return whether another reading of the range may yield rows of these tables.

        `letters` contains the dead-letter table. A range that is read for some tables only has reported every table
        that it has changes of.
        """
        if self.reading is None or any(table in self.tables for table in tables):
            return True
        bad = self.bad.count + sum(report.bad.count for report in self.tables.values())
        return bad > 0 and any(table in letters for table in tables)

    def table(self, name: str) -> TableReport:
        """Return the report of a table, which is empty at first."""
        return self.tables.setdefault(name, TableReport())

    def forget(self, table: str) -> int:
        """Discard the report of the table, as if none of its records had been read.

        Return the number of its bad records.
        """
        return self.tables.pop(table, TableReport()).bad.count

    def leave_out(self, table: str) -> None:
        """Count the rows of a table that is left out as filtered, and drop its drift. Its bad records stay."""
        report = self.tables.get(table)
        if report is not None:
            self.filtered += report.rows + report.unfitted
            self.tables[table] = TableReport(bad=report.bad, error=report.error)

    def replace(self, table: str, again: RangeReport) -> None:
        """Replace the report of the table by the one of a later reading of the same range."""
        self.tables[table] = again.tables.get(table, TableReport())

    @property
    def newest(self) -> int | None:
        """The newest event time of the range in milliseconds."""
        return max((report.newest for report in self.tables.values() if report.newest is not None), default=None)
