"""Collects the bad records of a range: in its report, and as rows of the dead-letter table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import DecodeError
from penstock.formats.change import BAD_VALUE, NO_NAME, BadRecord, ChangeBatch, RowBatch
from penstock.ingest.fetched_chunk import FetchedMessages
from penstock.ingest.source import Range
from penstock.pipelines.tasks import dead_letters
from penstock.pipelines.tasks.blob_packer import BlobPacker
from penstock.pipelines.tasks.reports import RangeReport
from penstock.pipelines.tasks.task_input import TaskContext
from penstock.row_kinds import INSERT
from penstock.table.buckets.layout import Layout


@dataclass(frozen=True, slots=True)
class BadRecordCollector:
    """The bad records of one range. With the action `fail`, the first one ends the range."""

    context: TaskContext
    range: Range
    report: RangeReport
    blobs: BlobPacker

    def add(self, records: Sequence[BadRecord], fetched: FetchedMessages | None, table: str | None) -> None:
        """Record messages that cannot be read, or with `table`, that do not fit this table."""
        if not records:
            return
        on_bad = self.context.on_bad
        if on_bad.action == "fail":
            raise on_bad.error(records[0], self.range.place, table)
        (self.report.bad if table is None else self.report.table(table).bad).add(records)
        # A late batch's unreadable messages were kept when it was first read.
        if on_bad.table is not None and self.context.keeps_letters and not (self.context.task.late and table is None):
            self._keep(on_bad.table, records, fetched, table)

    def _keep(
        self, letters: str, records: Sequence[BadRecord], fetched: FetchedMessages | None, table: str | None
    ) -> None:
        task, count = self.context.task, len(records)
        rows = dead_letters.rows(
            records,
            pipeline=self.context.on_bad.pipeline,
            place=self.range.place,
            fetched=fetched,
            table=table,
            now_millis=task.now_millis,
            schema=self.context.warehouse.layout(letters, task.versions[letters].schema).schema,
        )
        positions = np.fromiter((record.pos for record in records), np.int64, count)
        kinds, subs = np.full(count, INSERT, np.int8), np.zeros(count, np.int32)
        self.blobs.add(letters, RowBatch(rows, kinds, positions, subs))

    def add_nameless(self, change: ChangeBatch, error: DecodeError, fetched: FetchedMessages | None) -> None:
        """Record messages whose table cannot be determined.

        If that ends the range, the error says what to do.
        """
        try:
            self.add(_all_records(change, NO_NAME, error.message, fetched), fetched, None)
        except DecodeError as bad:
            error.facts |= bad.facts
            raise error from bad

    def add_nonsense(
        self, table: str, change: ChangeBatch, layout: Layout | None, fetched: FetchedMessages | None
    ) -> bool:
        """Record messages that declare an impossible schema. Return whether they do.

        Only messages can be wrong in this way: a binlog declares existing schemas.
        """
        if fetched is None:
            return False
        reason = self.context.mapping.nonsense(change.schema, None if layout is None else layout.schema)
        if reason is None:
            return False
        self.add(_all_records(change, BAD_VALUE, reason, fetched), fetched, table)
        return True


def _all_records(change: ChangeBatch, reason: str, message: str, fetched: FetchedMessages | None) -> list[BadRecord]:
    """Return each message of the change as a bad record."""
    values = dict(zip(fetched.messages.offsets.tolist(), fetched.messages.values, strict=True)) if fetched else {}
    return [BadRecord(pos, reason, message, values.get(pos) or b"") for pos in np.unique(change.positions).tolist()]
