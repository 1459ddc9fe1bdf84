"""The facts that observers receive: committed batches, and how a run ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.errors import PenstockError
from penstock.ingest.source import Offsets
from penstock.pipelines.ledger.batch_identity import NOW, BatchIdentity
from penstock.pipelines.tasks.reports import BatchReport
from penstock.pipelines.tasks.task_stats import TaskStats
from penstock.row_kinds import KIND_TEXTS


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """`kinds` are the names of the changes, as policies name them."""

    table: str
    schema: int
    millis: int
    kinds: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """`seconds` runs from the moment the batch's end was found to the last of its commits."""

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
            reasons["not shown"] += records.count - len(records.shown)
            bad.update(+reasons)
            bad_of.update({(of_table or "", reason): count for reason, count in (+reasons).items()})
        found = int(identity.end.get(NOW, now_millis))
        return cls(
            pipeline=identity.pipeline,
            number=identity.number,
            start=identity.start,
            end=identity.end,
            millis=now_millis,
            seconds=max(0.001, (now_millis - found) / 1000),
            messages=report.messages,
            bytes=sum(one.bytes for one in report.ranges),
            rows=report.rows,
            newest=report.newest,
            bad=bad,
            passed_over=report.passed_over,
            bad_of=bad_of,
            kinds=kinds,
            stats=report.stats,
        )


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the source between batches: how much it still has, and whether that is nothing."""

    millis: int
    lag: Mapping[str, int]

    @property
    def caught_up(self) -> bool:
        return not any(self.lag.values())


class Observer(Protocol):
    """Hears of a run. Called by one thread at a time; what it raises is logged, and the run goes on."""

    def batch(self, facts: BatchFacts) -> None: ...

    def looked(self, look: Look) -> None: ...

    def ended(self, error: PenstockError | None) -> None: ...
