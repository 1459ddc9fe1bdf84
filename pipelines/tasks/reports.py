"""The reports that tasks send to the driver beside rows: progress, counts, and what did not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.formats.change import BadRecord, Truncation
from penstock.ingest.database.unordered_deletes import UNORDERED_DELETE
from penstock.ingest.freshness import Reading
from penstock.ingest.source import Barrier, Offsets, Range
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.tasks.task_stats import Seconds, TaskStats, no_seconds
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

    Only the first range of a batch has a `span`: the offsets where the batch starts and ends. `reading` are the tables
    that the range is read for, None for all.
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
    filtered: int = 0  # rows that transforms filter out, or of left-out tables
    keyless: set[tuple[str, tuple[str, str]]] = field(default_factory=set)  # target and source, left out without a key
    repaired: int = 0  # texts with unpaired surrogates
    missed: int = 0  # keys of rows that a dimension does not have
    lookups: dict[str, tuple[int, int]] = field(default_factory=dict)  # first and last snapshot by dimension
    bad: BadRecords = field(default_factory=BadRecords)  # messages that cannot be read
    # messages that cannot be read, and that the same batch reads for the first time by another range
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
        """The intervals of the tables that the range is read for; 0 are tables that are not deferred."""
        return frozenset({0}) if self.reading is None else self.reading.intervals

    def is_read_for(self, tables: Collection[str], letters: Collection[str]) -> bool:
        """Return whether another reading of the range may yield rows of these tables; `letters` has dead letters.

        A range that is read for some tables has reported each of them that it has changes of.
        """
        if self.reading is None or any(table in self.tables for table in tables):
            return True
        bad = self.bad.count + sum(report.bad.count for report in self.tables.values())
        return bad > 0 and any(table in letters for table in tables)

    def table(self, name: str) -> TableReport:
        """Return the report of a table, which is empty at first."""
        return self.tables.setdefault(name, TableReport())

    def forget(self, table: str) -> int:
        """Discard what was recorded of the table, as if nothing of it had been read.

        Return how many of its records were bad.
        """
        return self.tables.pop(table, TableReport()).bad.count

    def leave_out(self, table: str) -> None:
        """Count the rows of a table that is left out as filtered, and drop its drift. Its bad records stay."""
        report = self.tables.get(table)
        if report is not None:
            self.filtered += report.rows + report.unfitted
            self.tables[table] = TableReport(bad=report.bad, error=report.error)

    def replace(self, table: str, again: RangeReport) -> None:
        """Replace what was recorded of the table by the report of a later reading of the same range."""
        self.tables[table] = again.tables.get(table, TableReport())

    @property
    def newest(self) -> int | None:
        """The newest event time of the range in milliseconds."""
        return max((report.newest for report in self.tables.values() if report.newest is not None), default=None)


@dataclass(slots=True)
class BatchReport:
    """The reports of all ranges of a batch, in source order."""

    ranges: list[RangeReport]
    stats: TaskStats = field(default_factory=TaskStats)

    @property
    def tables(self) -> Iterator[tuple[str, TableReport]]:
        """The reports of each table, one per range that has any change of it, in source order."""
        return (item for report in self.ranges for item in report.tables.items())

    @property
    def span(self) -> tuple[Offsets, Offsets] | None:
        return next((report.span for report in self.ranges if report.span is not None), None)

    @property
    def drifts(self) -> dict[str, list[SeenSchema]]:
        """The drift by table, in source order."""
        found: dict[str, list[SeenSchema]] = {}
        for table, report in self.tables:
            if report.drifts:
                found.setdefault(table, []).extend(report.drifts)
        return {table: sorted(drifts, key=lambda drift: drift.first) for table, drifts in found.items()}

    @property
    def commented(self) -> dict[str, list[SeenSchema]]:
        """By table, the newest schema of each source table whose columns have comments, in source order."""
        newest: dict[str, dict[tuple[str, str], SeenSchema]] = {}
        for table, report in self.tables:
            for source, seen in report.commented.items():
                found = newest.setdefault(table, {})
                found[source] = max(seen, found.get(source, seen), key=lambda seen: seen.first)
        return {table: sorted(found.values(), key=lambda seen: seen.first) for table, found in newest.items()}

    @property
    def lacks_rows_of(self) -> set[tuple[str, str]]:
        """The source tables that have rows which the batch lacks."""
        return set[tuple[str, str]]().union(*(report.lacks_rows_of for report in self.ranges))

    @property
    def messages(self) -> int:
        """The messages that were read for the first time."""
        return sum(report.messages for report in self.ranges if not report.is_again)

    @property
    def messages_again(self) -> int:
        """The messages that were read again, for tables that they were deferred for."""
        return sum(report.messages for report in self.ranges if report.is_again)

    @property
    def bad_count(self) -> int:
        return sum(records.count for _, _, records in self.bad)

    @property
    def bad_for_some(self) -> tuple[str, BadRecord] | None:
        """A message that one range of the batch could read and another could not, with its place."""
        first = {(one.range.place, bad.pos) for one in self.ranges if not one.is_again for bad in one.bad.shown}
        if any(one.bad.count > len(one.bad.shown) for one in self.ranges if not one.is_again):
            return None  # a report keeps only the first bad records, so the others cannot be compared
        found = ((one.range.place, bad) for one in self.ranges for bad in one.bad_too.shown)
        return next(((place, bad) for place, bad in found if (place, bad.pos) not in first), None)

    @property
    def first_bad(self) -> tuple[BadRecord, str, str | None]:
        """The first bad record, its place, and the table that its value did not fit."""
        place, table, records = next(found for found in self.bad if found[2].shown)
        return records.shown[0], place, table

    @property
    def bad(self) -> Iterator[tuple[str, str | None, BadRecords]]:
        """The bad records by place and by the table that they did not fit. Unreadable records have no table."""
        for report in self.ranges:
            yield report.range.place, None, report.bad
            for table, of_table in report.tables.items():
                yield report.range.place, table, of_table.bad

    @property
    def passed_over(self) -> Counter[str]:
        """Counts, by category, of input that is in no table or was changed on its way."""
        found: Counter[str] = Counter()
        for report in self.ranges:
            found.update({f"messages.{operation}": count for operation, count in report.skipped.items()})
            found.update(report.expectations)
            found["rows.left.out"] += report.filtered
            found["texts.repaired"] += report.repaired
            found["lookup.missed"] += report.missed
        for _, of_table in self.tables:
            found["append.deletes.dropped"] += of_table.dropped
            found["values.nulled"] += of_table.nulled
            found["updates.without.columns"] += of_table.partial
            found["changelog.never.added"] += of_table.never_added
            # under the name by which readers of databases count them
            found[f"messages.{UNORDERED_DELETE}"] += of_table.unordered
        # The plus drops counts of zero.
        return +found

    @property
    def lookups(self) -> dict[str, tuple[int, int]]:
        """The first and the last snapshot of each dimension whose rows are in the batch."""
        found: dict[str, tuple[int, int]] = {}
        for report in self.ranges:
            for table, (first, last) in report.lookups.items():
                known = found.get(table, (first, last))
                found[table] = (min(first, known[0]), max(last, known[1]))
        return found

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows by table, 0 for a table that only had changes without rows."""
        found: Counter[str] = Counter()
        for table, report in self.tables:
            if report.is_fitted:
                found[table] += report.rows
        return dict(found)

    @property
    def sources(self) -> dict[str, set[tuple[str, str]]]:
        """The source tables of each table that had any change in the batch."""
        found: dict[str, set[tuple[str, str]]] = {}
        for table, report in self.tables:
            if report.sources:
                found.setdefault(table, set()).update(report.sources)
        return found

    @property
    def keyless(self) -> list[tuple[str, tuple[str, str]]]:
        """The source tables that were left out because they have no key, with their target tables."""
        return sorted(set[tuple[str, tuple[str, str]]]().union(*(report.keyless for report in self.ranges)))

    @property
    def newest(self) -> dict[str, int]:
        """The newest event time by table, in milliseconds."""
        found: dict[str, int] = {}
        for table, report in self.tables:
            if report.newest is not None:
                found[table] = max(report.newest, found.get(table, report.newest))
        return found
