"""The facts that observers receive: batches, the progress of the first copy of tables, and how a run ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.errors import PenstockError
from penstock.ingest.deferred_ranges import DeferredRanges
from penstock.ingest.freshness import FreshnessRules
from penstock.ingest.source import Offsets
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.monitor.measures import span
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.task_stats import TaskStats
from penstock.row_kinds import KIND_TEXTS


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """A new schema of a table. `kinds` are the names of its changes, as policies name them."""

    table: str
    schema: int
    millis: int
    kinds: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """A committed batch. `seconds` is as in its report, but never 0."""

    pipeline: str
    number: int
    start: Offsets
    end: Offsets
    millis: int
    seconds: float
    messages: int
    bytes: int
    rows: Mapping[str, int]
    newest: Mapping[str, int]
    bad: Mapping[str, int] = field(default_factory=dict)  # by reason
    bad_of: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by table ("": not understood) and reason
    kinds: Mapping[tuple[str, str], int] = field(default_factory=dict)  # rows by table and kind
    schemas: Sequence[SchemaChanged] = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)  # what is in no table, or not as it came
    messages_again: int = 0  # read again, for tables that they were deferred for
    deferred_seconds: Mapping[str, float] = field(default_factory=dict)  # how long rows of a table may be deferred
    stats: TaskStats = field(default_factory=TaskStats)

    @property
    def total_rows(self) -> int:
        return sum(self.rows.values())

    @classmethod
    def of(cls, identity: BatchIdentity, report: BatchReport, now_millis: int) -> BatchFacts:
        bad: Counter[str] = Counter()
        bad_of: Counter[tuple[str, str]] = Counter()
        kinds: Counter[tuple[str, str]] = Counter()
        for table, of_range in report.tables:
            counts = zip(KIND_TEXTS, of_range.kinds, strict=True)
            kinds.update({(table, kind): count for kind, count in counts if count})
        for _, of_table, records in report.bad:
            reasons = Counter(record.reason_class for record in records.shown)
            # Reports contain the first bad records only, but the sum over all reasons has to be the count.
            reasons["not shown"] += records.count - len(records.shown)
            bad.update(+reasons)
            bad_of.update({(of_table or "", reason): count for reason, count in (+reasons).items()})
        rules = DeferredRanges.of(identity.end).rules
        return cls(
            pipeline=identity.pipeline,
            number=identity.number,
            start=identity.start,
            end=identity.end,
            millis=now_millis,
            seconds=max(0.001, report.seconds),  # rates are computed by dividing by it
            messages=report.messages,
            bytes=sum(range_.bytes for range_ in report.ranges if not range_.is_again),
            rows=report.rows,
            newest=report.newest,
            bad=bad,
            passed_over=report.passed_over,
            bad_of=bad_of,
            kinds=kinds,
            messages_again=report.messages_again,
            deferred_seconds=seconds_deferred(rules, report.sources),
            stats=report.stats,
        )


def seconds_deferred(rules: FreshnessRules, sources: Mapping[str, Collection[tuple[str, str]]]) -> dict[str, float]:
    """Return how long rows of a table may be deferred, for tables with a freshness, given their source tables."""
    found = {
        table: max((rules.interval(database or None, name or None) for database, name in given), default=0)
        for table, given in sources.items()
    }
    return {table: interval / 1000 for table, interval in found.items() if interval}


@dataclass(frozen=True, slots=True)
class Look:
    """The lag between two batches: how much the source still has, and whether that is nothing."""

    millis: int
    lag: Mapping[str, int]

    @property
    def caught_up(self) -> bool:
        return not any(self.lag.values())


class Observer(Protocol):
    """An observer of a run. It is called by one thread at a time; its errors are logged, and the run continues."""

    def batch(self, facts: BatchFacts) -> None: ...

    def looked(self, look: Look) -> None: ...

    def ended(self, error: PenstockError | None) -> None: ...


_WIDTH = 10


@dataclass(frozen=True, slots=True)
class TableCopy:
    table: str
    rows: int
    expected: int

    @property
    def share(self) -> float:
        """The copied share, below 1 until the table is done: estimates of servers are easily off by a tenth."""
        return min(0.99, self.rows / self.expected) if self.expected else 0.0


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """`tables` are those still being copied; `done_rows` are the rows of the tables that this run has copied whole."""

    tables: tuple[TableCopy, ...] = ()
    done: int = 0
    rows_per_second: float = 0.0
    done_rows: int = 0

    @property
    def seconds_left(self) -> float | None:
        # A table may have more rows than the server estimated.
        left = sum(max(0, table.expected - table.rows) for table in self.tables)
        return left / self.rows_per_second if self.rows_per_second else None

    @property
    def share(self) -> float:
        """The share of all tables of this copy. It includes finished ones, so that it never falls."""
        return min(0.99, self.rows / (self.expected or 1))

    @property
    def rows(self) -> int:
        return self.done_rows + sum(table.rows for table in self.tables)

    @property
    def expected(self) -> int:
        return self.done_rows + sum(max(table.expected, table.rows) for table in self.tables)

    def line(self) -> str:
        bar = "#" * int(self.share * _WIDTH) + "-" * (_WIDTH - int(self.share * _WIDTH))
        left = "" if self.seconds_left is None else f"  about {span(self.seconds_left)} left"
        total = self.done + len(self.tables)
        return f"copying {self.share:.0%}{left} [{bar}] ({self.done} of {total} tables done)"

    def facts(self) -> dict[str, Any]:
        left = self.seconds_left
        return {
            "tables": [
                {"table": table.table, "rows": table.rows, "expected": table.expected, "share": round(table.share, 4)}
                for table in self.tables
            ],
            "done": self.done,
            "rows_per_second": round(self.rows_per_second, 1),
            "seconds_left": None if left is None else round(left),
        }


@dataclass(slots=True)
class Copying:
    """The rows copied so far. `expected` are estimates by target table, `sources` maps source tables to those."""

    expected: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)
    _copied: set[str] = field(default_factory=set)  # tables of this copy
    now: SnapshotProgress = field(default_factory=SnapshotProgress)

    def batch(self, rows: Mapping[str, int], end: Mapping[str, Any], per_second: float) -> SnapshotProgress:
        """Count a batch and return the progress after it. `end` are the source's offsets at its end."""
        # Offsets of databases list the tables whose copy has not begun (`waiting`) and the tables that are being copied
        # (`cursors`). A part of a table is copied beside the stream, and is no progress of a copy.
        waiting = {".".join(name) for name in end.get("waiting", ())}
        waiting |= {
            f"{cursor.get('database')}.{cursor.get('table')}"
            for cursor in end.get("cursors", ())
            if not cursor.get("where")
        }
        open_ = {self.sources[name] for name in waiting if name in self.sources}
        for table, count in rows.items():
            self._rows[table] = self._rows.get(table, 0) + count
        # The first batch may hold small tables whole, which were never seen as open.
        self._copied |= open_ | (set() if self._copied else set(rows) & set(self.expected)) if open_ else set()
        done_rows = sum(self._rows.get(table, 0) for table in self._copied - open_)
        copies = [TableCopy(table, self._rows.get(table, 0), self.expected.get(table, 0)) for table in sorted(open_)]
        done = len(self.expected) - len(open_) if open_ else 0
        self.now = SnapshotProgress(tuple(copies), done, per_second if open_ else 0.0, done_rows)
        return self.now
