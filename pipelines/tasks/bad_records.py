"""The policy for bad records, and how many of them stop the job."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from penstock.errors import DecodeError
from penstock.formats.change import BadRecord
from penstock.formats.resemblance import resembled_format
from penstock.pipelines.tasks.batch_report import BatchReport

Action = Literal["fail", "skip", "dead-letter"]

# How a message of the format that was expected begins, if the record does not have it.
_MISREAD = re.compile(r"Invalid ([\w-]+) format\b")
FEW = 10  # up to this number the share never applies: a batch may contain only a handful of records
MOST = 1000
SHARE = 0.1
BATCHES = 100  # a topic with little traffic is judged by many recent batches, not by its last two records


@dataclass(frozen=True, slots=True)
class OnBad:
    """The policy for bad records.

    `table` is the dead-letter table. A batch with more than `most` bad records, or with a larger share of them than
    `share`, stops the job, because that indicates a wrong setting rather than bad records. With
    `shows_records`, errors contain the record.
    """

    action: Action = "fail"
    pipeline: str = ""
    table: str | None = None
    most: int = MOST
    share: float = SHARE
    shows_records: bool = True

    @property
    def letters(self) -> frozenset[str]:
        """The dead-letter table as a set of tables: empty if dead letters are not written."""
        return frozenset() if self.table is None else frozenset({self.table})

    def error(self, record: BadRecord, place: str, table: str | None = None) -> DecodeError:
        return DecodeError(
            record.message,
            place=place,
            offset=record.position,
            table=table,
            record=repr(record.raw[:200]) if self.shows_records else None,
            hint=_format_meant(record)
            + "--on-bad-record dead-letter , in a file  errors: {bad-record: dead-letter} , keeps such records in a"
            " table;  skip  instead of  dead-letter  leaves them out",
        )


def _format_meant(record: BadRecord) -> str:
    """Return a sentence if the record has another format: usually all records of the topic have it."""
    read_as = _MISREAD.match(record.message)
    name = resembled_format(record.raw) if read_as is not None else None
    if read_as is None or name is None or name == read_as[1]:
        return ""
    return f"the record looks like {name}: set  value.format={name}  if the others have it too. "


FAIL = OnBad()


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The policy of a pipeline for records and tables that fail.

    `isolates`: a table that fails is parked, and the others continue. `leaves_out`: a new table that cannot be created
    is left out. `ignore_incompatible`: a table that cannot store the types of its source is left out too.
    """

    on_bad: OnBad = FAIL
    isolates: bool = False
    leaves_out: bool = False
    ignore_incompatible: bool = False


STRICT = ErrorPolicy()  # the first error ends the run


@dataclass(slots=True)
class BadRecordLimit:
    """Checks each batch before it is committed."""

    on_bad: OnBad
    _lately: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES))

    def check(self, report: BatchReport) -> None:
        """Raise DecodeError when too many records are bad."""
        bad, all_ = report.bad_count, report.messages + report.messages_again
        # Batches without bad records count too: they make the share of the recent batches smaller.
        self._lately.append((bad, all_))
        if bad == 0:
            return
        recent_bad, recent = (sum(counts) for counts in zip(*self._lately, strict=True))
        if bad > self.on_bad.most:
            raise self._too_many(report, bad, all_, f"more than {self.on_bad.most} in one batch")
        # A burst in this batch, or a small share in each of many batches.
        for count, total in ((bad, all_), (recent_bad, recent)):
            if count > max(FEW, self.on_bad.share * total):
                raise self._too_many(report, count, total, f"more than {self.on_bad.share:.6g} of all")

    def _too_many(self, report: BatchReport, bad: int, all_: int, rule: str) -> DecodeError:
        first, place, table = report.first_bad
        return DecodeError(
            f"{bad} of {all_} records are bad, {rule}; nothing of the batch was committed",
            first=first.message,
            place=place,
            offset=first.position,
            table=table,
            record=repr(first.raw[:200]) if self.on_bad.shows_records else None,
            hint="correct value.format, or the producer;  --max-bad-records N  and  --max-bad-share 5% , in a file"
            " max-per-batch  and  max-share  of  errors: {dead-letter: ...}  or  {skip: ...} , allow more",
        )
