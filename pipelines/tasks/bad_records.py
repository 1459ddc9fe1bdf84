"""Records that cannot be taken: what is done with them, and how many of them are too many."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from penstock.errors import DecodeError
from penstock.formats.change import BadRecord
from penstock.pipelines.tasks.reports import BatchReport

Action = Literal["fail", "skip", "dead-letter"]

FEW = 10  # so many are never too many by their share: a batch may hold a handful of records in all
MOST = 1000
SHARE = 0.1
BATCHES = 100  # a topic that trickles is judged by what came lately, not by its last two records


@dataclass(frozen=True, slots=True)
class OnBad:
    """`table` keeps dead letters. A batch with more than `most` bad records, or with a larger share of them than
    `share`, stops the job: that is a wrong setting rather than bad records. `tells`: errors show the record."""

    action: Action = "fail"
    pipeline: str = ""
    table: str | None = None
    most: int = MOST
    share: float = SHARE
    tells: bool = True

    @property
    def letters(self) -> frozenset[str]:
        """The dead-letter table as a set of tables: empty where none is kept."""
        return frozenset() if self.table is None else frozenset({self.table})

    def error(self, record: BadRecord, place: str, table: str | None = None) -> DecodeError:
        return DecodeError(
            record.message,
            place=place,
            offset=record.pos,
            table=table,
            record=repr(record.raw[:200]) if self.tells else None,
            hint="--on-bad-record skip  leaves such records out,  dead-letter  keeps them in a table",
        )


FAIL = OnBad()


@dataclass(slots=True)
class BadRecordLimit:
    """Judges batch after batch, before they are committed."""

    on_bad: OnBad
    _lately: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES))

    def check(self, report: BatchReport) -> None:
        """DecodeError where too many records are bad."""
        bad, all_ = report.bad_count, report.messages
        self._lately.append((bad, all_))
        if bad == 0:
            return
        recent_bad, recent = (sum(counts) for counts in zip(*self._lately, strict=True))
        if bad > self.on_bad.most:
            raise self._too_many(report, bad, all_, f"more than {self.on_bad.most} in one batch")
        for count, total in ((bad, all_), (recent_bad, recent)):
            if count > max(FEW, self.on_bad.share * total):
                raise self._too_many(report, count, total, f"more than {self.on_bad.share:.6g} of all")

    def _too_many(self, report: BatchReport, bad: int, all_: int, rule: str) -> DecodeError:
        first, place, table = report.first_bad
        return DecodeError(
            f"{bad} of {all_} records cannot be taken, {rule}; nothing of the batch was committed",
            first=first.message,
            place=place,
            offset=first.pos,
            table=table,
            record=repr(first.raw[:200]) if self.on_bad.tells else None,
            hint="correct value.format, or the producer;  --max-bad-records N  and  --max-bad-share 5%  allow more",
        )
