"""The reports that tasks send to the driver beside rows: progress, counts, and what did not fit."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from penstock.errors import PenstockError
from penstock.formats.change import BadRecord, Truncation
from penstock.ingest.batch_barrier import Barrier
from penstock.ingest.source import Offsets, Range
from penstock.pipelines.mapping.table_mapping import Seen

MOST_BAD_SHOWN = 100
KINDS = ("+I", "-U", "+U", "-D")

Part = TypeVar("Part")
Seconds: TypeAlias = defaultdict[str, float]  # by stage


def no_seconds() -> Seconds:
    return defaultdict(float)


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
class Told:
    """Statistics of a batch for monitoring.

    `seconds` by stage, summed over tasks; by table, the number of files and of sorted runs in the fullest bucket
    written to, and the bytes of its new files.
    """

    seconds: Seconds = field(default_factory=no_seconds)
    files: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    bytes: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    conflicts: Counter[str] = field(default_factory=Counter)
    replays: int = 0
    memory: int = 0  # the peak memory of a task's process
    parked: dict[str, str] = field(default_factory=dict)  # tables that failed, and why
    left_out: dict[str, str] = field(default_factory=dict)  # tables that cannot be created, and why

    def add(self, other: Told) -> None:
        self.spend(other.seconds)
        for mine, others in (
            (self.bytes, other.bytes),
            (self.retries, other.retries),
            (self.conflicts, other.conflicts),
        ):
            mine.update(others)
        for most, more in ((self.files, other.files), (self.runs, other.runs)):
            most |= {table: max(count, most.get(table, 0)) for table, count in more.items()}
        self.replays += other.replays
        self.memory = max(self.memory, other.memory)
        self.parked |= other.parked

    def spend(self, seconds: Seconds) -> None:
        for stage, spent in seconds.items():
            self.seconds[stage] += spent

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - began


def timed(parts: Iterator[Part], seconds: Seconds, stage: str) -> Iterator[Part]:
    """Yield the same parts and add the time spent producing them, not the time spent by the consumer."""
    while True:
        began = time.perf_counter()
        part = next(parts, None)
        seconds[stage] += time.perf_counter() - began
        if part is None:
            return
        yield part


@dataclass(slots=True)
class RangeReport:
    """The report of one range.

    Only the first range of a batch has a `span`: the offsets where the batch starts and ends.
    """

    range: Range
    span: tuple[Offsets, Offsets] | None = None
    messages: int = 0
    bytes: int = 0
    rows: Counter[str] = field(default_factory=Counter)  # by table
    sources: dict[str, set[tuple[str, str]]] = field(default_factory=dict)  # database and table of the source, by table
    kinds: dict[str, list[int]] = field(default_factory=dict)  # rows by table and by the four row kinds
    seconds: Seconds = field(default_factory=no_seconds)
    skipped: Counter[str] = field(default_factory=Counter)  # messages without rows, by operation
    filtered: int = 0  # rows that transforms filter out, or of left-out tables
    dropped: Counter[str] = field(default_factory=Counter)  # -U and -D of append tables, by table
    nulled: Counter[str] = field(default_factory=Counter)  # values made null by a rule, by table
    partial: Counter[str] = field(default_factory=Counter)  # updates that lack columns of their rows, by table
    # the omitted columns of the first such update, by table
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    repaired: int = 0  # texts with unpaired surrogates
    bad: BadRecords = field(default_factory=BadRecords)  # messages that cannot be read
    unfit: dict[str, BadRecords] = field(default_factory=dict)  # messages with values that do not fit, by table
    drifts: list[Seen] = field(default_factory=list)
    unfitted: Counter[str] = field(default_factory=Counter)  # rows of the tables that drifted
    truncations: list[Truncation] = field(default_factory=list)
    newest: dict[str, int] = field(default_factory=dict)  # newest event time by table, milliseconds
    # By table, the newest schema of each of its source tables whose columns have comments.
    commented: dict[str, dict[tuple[str, str], Seen]] = field(default_factory=dict)
    barriers: list[Barrier] = field(default_factory=list)
    # tables that cannot accept the rows of this range, and why
    failed: dict[str, PenstockError] = field(default_factory=dict)

    def forget(self, table: str) -> int:
        """Discard what was recorded of the table, as if nothing of it had been read.

        Return how many of its records were bad.
        """
        by_table: tuple[dict[str, Any], ...] = (
            self.rows,
            self.sources,
            self.kinds,
            self.dropped,
            self.nulled,
            self.newest,
            self.partial,
            self.left_out,
            self.commented,
        )
        for counts in by_table:
            counts.pop(table, None)
        self.drifts = [drift for drift in self.drifts if drift.table != table]
        bad = self.unfit.pop(table, None)
        return 0 if bad is None else bad.count


@dataclass(slots=True)
class BatchReport:
    """The reports of all ranges of a batch, in source order."""

    ranges: list[RangeReport]
    told: Told = field(default_factory=Told)

    @property
    def span(self) -> tuple[Offsets, Offsets] | None:
        return next((one.span for one in self.ranges if one.span is not None), None)

    @property
    def drifts(self) -> dict[str, list[Seen]]:
        """The drift by table, in source order."""
        found: dict[str, list[Seen]] = {}
        for drift in sorted((drift for one in self.ranges for drift in one.drifts), key=lambda drift: drift.first):
            found.setdefault(drift.table, []).append(drift)
        return found

    @property
    def commented(self) -> dict[str, list[Seen]]:
        """By table, the newest schema of each source table whose columns have comments, in source order."""
        newest: dict[str, dict[tuple[str, str], Seen]] = {}
        for one in self.ranges:
            for table, sources in one.commented.items():
                found = newest.setdefault(table, {})
                for source, seen in sources.items():
                    found[source] = max(seen, found.get(source, seen), key=lambda seen: seen.first)
        return {table: sorted(found.values(), key=lambda seen: seen.first) for table, found in newest.items()}

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.ranges)

    @property
    def bad_count(self) -> int:
        return sum(records.count for _, _, records in self._bad())

    @property
    def first_bad(self) -> tuple[BadRecord, str, str | None]:
        """The first bad record, its place, and the table that its value did not fit."""
        place, table, records = next(one for one in self._bad() if one[2].shown)
        return records.shown[0], place, table

    def _bad(self) -> Iterator[tuple[str, str | None, BadRecords]]:
        for one in self.ranges:
            yield one.range.place, None, one.bad
            for table, records in one.unfit.items():
                yield one.range.place, table, records

    @property
    def passed_over(self) -> Counter[str]:
        """Counts, by category, of input that is in no table or was changed on its way."""
        found: Counter[str] = Counter()
        for one in self.ranges:
            found.update({f"messages.{operation}": count for operation, count in one.skipped.items()})
            found["rows.left.out"] += one.filtered
            found["append.deletes.dropped"] += one.dropped.total()
            found["values.nulled"] += one.nulled.total()
            found["updates.without.columns"] += one.partial.total()
            found["texts.repaired"] += one.repaired
        return +found

    @property
    def sources(self) -> dict[str, set[tuple[str, str]]]:
        """The source tables of each table that had any change in the batch."""
        found: dict[str, set[tuple[str, str]]] = {}
        for one in self.ranges:
            for table, names in one.sources.items():
                found.setdefault(table, set()).update(names)
        return found

    @property
    def newest(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for one in self.ranges:
            for table, millis in one.newest.items():
                found[table] = max(millis, found.get(table, millis))
        return found
