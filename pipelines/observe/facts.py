"""What observers hear of: batches that are in the tables, and how a run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.errors import PenstockError
from penstock.ingest.ranges import Offsets
from penstock.pipelines.run.identity import NOW, BatchIdentity
from penstock.pipelines.run.reports import BatchReport


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    table: str
    schema: int
    millis: int


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
    schemas: Sequence[SchemaChanged] = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)  # what is in no table, or not as it came

    @property
    def total_rows(self) -> int:
        return sum(self.rows.values())

    @classmethod
    def of(cls, identity: BatchIdentity, report: BatchReport, now_millis: int) -> BatchFacts:
        rows: dict[str, int] = {}
        bad: dict[str, int] = {}
        for one in report.ranges:
            for table, count in one.rows.items():
                rows[table] = rows.get(table, 0) + count
            for records in (one.bad, *one.unfit.values()):
                for record in records.shown:
                    bad[record.reason_class] = bad.get(record.reason_class, 0) + 1
                hidden = records.count - len(records.shown)
                if hidden:
                    bad["not shown"] = bad.get("not shown", 0) + hidden
        found = int(identity.end.get(NOW, now_millis))
        return cls(
            pipeline=identity.pipeline,
            number=identity.number,
            start=identity.start,
            end=identity.end,
            millis=now_millis,
            seconds=max(0.001, (now_millis - found) / 1000),
            messages=sum(one.messages for one in report.ranges),
            bytes=sum(one.bytes for one in report.ranges),
            rows=rows,
            newest=report.newest,
            bad=bad,
            passed_over=report.passed_over,
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
