"""The tables of a pipeline that have a freshness: how much is deferred for them, and when they are due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.errors import ConfigError
from penstock.ingest.deferred_ranges import DeferredRanges, deferring_source
from penstock.ingest.freshness import duration
from penstock.ingest.source import Offsets


@dataclass(frozen=True, slots=True)
class DeferredTables:
    """`intervals` are the intervals of target tables in milliseconds, and `ranges` how far each interval was read.

    `records` are the counted deferred records by interval, in the unit of the lag.
    """

    intervals: Mapping[str, int] = field(default_factory=dict)
    ranges: DeferredRanges = field(default_factory=DeferredRanges)
    records: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, offsets: Offsets, sources: Mapping[tuple[str, str], str]) -> DeferredTables:
        """Return the deferred tables at these offsets. `sources` maps source tables to their target tables."""
        ranges, found = DeferredRanges.of(offsets), dict[str, int]()
        for (database, name), table in sources.items():
            interval = ranges.rules.interval(database or None, name or None)
            found[table] = max(interval, found.get(table, 0))
        return cls({table: interval for table, interval in found.items() if interval}, ranges)

    def counted(self, source: object, offsets: Offsets) -> DeferredTables:
        """Return these tables with the number of deferred records, which the source computes without a request."""
        if not self.ranges.rules:
            return self
        try:
            deferring = deferring_source(source)
        except ConfigError:  # the source was changed since
            return self
        found = {interval: deferring.behind(position, offsets) for interval, position in self.ranges.positions.items()}
        return replace(self, records=found)

    def freshness(self, table: str) -> str | None:
        interval = self.intervals.get(table)
        return None if interval is None else duration(interval)

    def due_millis(self, table: str) -> int | None:
        """Return when the table's next rows are due, None if that is with every batch."""
        interval = self.intervals.get(table)
        return None if interval is None else self.ranges.read_at(interval) + interval

    def defers(self, table: str) -> bool:
        """Return whether rows of the table may be deferred."""
        interval = self.intervals.get(table)
        return interval is not None and self.records.get(interval, 1) > 0

    def fresh_seconds(self, table: str, age: float | None, now_millis: int) -> float:
        """Return how old the table may be: it had all changes when its interval was last read."""
        since = max(0.0, (now_millis - self.ranges.read_at(self.intervals[table])) / 1000)
        return since if age is None else min(age, since)

    def facts(self) -> list[dict[str, object]]:
        """Return the intervals for programs."""
        return [
            {
                "freshness": duration(interval),
                "deferred": self.records.get(interval),
                "read_at_millis": self.ranges.read_at(interval),
                "due_millis": self.ranges.read_at(interval) + interval,
                "tables": sorted(table for table, own in self.intervals.items() if own == interval),
            }
            for interval in self.ranges.rules.intervals
        ]


NOTHING_DEFERRED = DeferredTables()
