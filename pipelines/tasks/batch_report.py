"""The report on a whole batch: sums, first records and newest times over the reports on its ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.formats.change import BadRecord
from penstock.ingest.database.unordered_deletes import UNORDERED_DELETE
from penstock.ingest.source import Offsets
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.tasks.range_report import BadRecords, RangeReport, TableReport
from penstock.pipelines.tasks.task_stats import TaskStats


@dataclass(slots=True)
class BatchReport:
    """The reports of all ranges of a batch, in source order.

    `seconds` is the time from the moment its end was found until it was done, or from the beginning of this run if an
    earlier one planned the batch.
    """

    ranges: list[RangeReport]
    stats: TaskStats = field(default_factory=TaskStats)
    seconds: float = 0.0

    @property
    def tables(self) -> Iterator[tuple[str, TableReport]]:
        """The reports by table, one for each range that has a change of the table, in source order."""
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
        """The source tables with rows that the batch lacks."""
        return set[tuple[str, str]]().union(*(report.lacks_rows_of for report in self.ranges))

    @property
    def messages(self) -> int:
        """The messages that were read for the first time."""
        return sum(report.messages for report in self.ranges if not report.is_again)

    @property
    def messages_again(self) -> int:
        """The messages that were read again, for tables whose reading was deferred."""
        return sum(report.messages for report in self.ranges if report.is_again)

    @property
    def bad_count(self) -> int:
        return sum(records.count for _, _, records in self.bad)

    @property
    def bad_for_some(self) -> tuple[str, BadRecord] | None:
        """A message that one range of the batch could read and another could not, with its place."""
        first = {
            (range_.range.place, bad.pos) for range_ in self.ranges if not range_.is_again for bad in range_.bad.shown
        }
        if any(range_.bad.count > len(range_.bad.shown) for range_ in self.ranges if not range_.is_again):
            return None  # a report keeps only the first bad records, so the others cannot be compared
        found = ((range_.range.place, bad) for range_ in self.ranges for bad in range_.bad_too.shown)
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
        """The messages, rows and values that reached no table or were changed before they did, by category."""
        counts: Counter[str] = Counter()
        for report in self.ranges:
            counts.update({f"messages.{operation}": count for operation, count in report.skipped.items()})
            counts.update(report.expectations)
            counts["rows.left.out"] += report.filtered
            counts["texts.repaired"] += report.repaired
            counts["lookup.missed"] += report.missed
        for _, of_table in self.tables:
            counts["append.deletes.dropped"] += of_table.dropped
            counts["values.nulled"] += of_table.nulled
            counts["values.inexact"] += of_table.inexact
            counts["updates.without.columns"] += of_table.partial
            counts["changelog.never.added"] += of_table.never_added
            # the same name under which readers of databases count such deletes
            counts[f"messages.{UNORDERED_DELETE}"] += of_table.unordered
        # The plus drops counts of zero.
        return +counts

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
