"""The bad records of a range: counted in its report, and kept as rows of the dead-letter table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import DecodeError
from penstock.formats.change import BAD_VALUE, NO_NAME, BadRecord, ChangeBatch, RowBatch
from penstock.formats.row_message import row_message
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.source import Range
from penstock.pipelines.tasks.dead_letter_table import LetterOrigin, letter_rows, source_position
from penstock.pipelines.tasks.earlier_letters import positions_with_letter, rows_with_letter
from penstock.pipelines.tasks.range_output import BlobPacker
from penstock.pipelines.tasks.range_report import RangeReport
from penstock.pipelines.tasks.task_input import TaskContext
from penstock.row_kinds import INSERT, is_retract
from penstock.table.buckets.layout import Layout

UNREADABLE_AGAIN = "unreadable.again"  # among the skipped messages: of deferred ranges
BAD_AGAIN = "bad.again"  # among the skipped messages: rows that have a dead letter already


@dataclass(frozen=True, slots=True)
class BadRecordCollector:
    """The bad records of one range. With the action `fail`, the first one ends the range."""

    context: TaskContext
    range: Range
    report: RangeReport
    blobs: BlobPacker

    def add(
        self,
        records: Sequence[BadRecord],
        fetched: FetchedMessages | None,
        table: str | None,
        read: ChangeBatch | None = None,
    ) -> None:
        """Record messages that cannot be read or, with `table`, messages that do not fit this table.

        `read` is their change as it was read: a dead letter that contained the result of transforms would be
        transformed again by a replay.
        """
        if not records:
            return
        if read is not None:
            records = [record if record.raw else with_message(record, read, fetched) for record in records]
        if fetched is not None and fetched.ids is not None:
            numbers = np.searchsorted(fetched.messages.offsets, [record.pos for record in records]).tolist()
            records = [replace(record, id=fetched.ids[n]) for record, n in zip(records, numbers, strict=True)]
        if table is None and self.report.is_again:
            given, records = len(records), self._unreadable_since(records)
            self.report.skipped[UNREADABLE_AGAIN] += given - len(records)
            if not records:
                return
        if read is not None and fetched is None and table is not None:
            records = self._without_letter(records, read, table)
            if not records:
                return
        on_bad = self.context.errors.on_bad
        if on_bad.action == "fail":
            raise on_bad.error(records[0], self.range.place, table)
        (self.report.bad if table is None else self.report.table(table).bad).add(records)
        # A late batch's unreadable messages were kept when it was first read.
        if on_bad.table is not None and self.context.keeps_letters and not (self.context.task.late and table is None):
            self._keep(on_bad.table, records, fetched, table)

    def _unreadable_since(self, records: Sequence[BadRecord]) -> Sequence[BadRecord]:
        """Return those of the unreadable messages that an earlier batch could read.

        A schema registry may have lost a schema in between. A message that the earlier batch could not read has a dead
        letter. A message that this batch also reads for the first time has no dead letter yet; that reading reports it.
        """
        on_bad, reading = self.context.errors.on_bad, self.report.reading
        new_from = None if reading is None else reading.new_from
        before = [record for record in records if new_from is None or record.pos < new_from]
        self.report.bad_too.add([record for record in records if new_from is not None and record.pos >= new_from])
        if on_bad.table is None or not before or not self.context.keeps_letters:
            return ()
        kept = positions_with_letter(self.context.warehouse, on_bad, self.range.place, before)
        return [record for record in before if source_position(self.range.place, record) not in kept]

    def _without_letter(self, records: Sequence[BadRecord], read: ChangeBatch, table: str) -> Sequence[BadRecord]:
        """Return the records without rows of a source snapshot that have a dead letter from an earlier reading."""
        on_bad, task = self.context.errors.on_bad, self.context.task
        positions = set(read.positions[(read.event_times < 0) & (read.kinds == INSERT)].tolist())
        of_snapshot = [record for record in records if record.pos in positions]
        if on_bad.table is None or not of_snapshot:
            return records
        found = rows_with_letter(self.context.warehouse, on_bad, table, of_snapshot, task.now_millis)
        self.report.skipped[BAD_AGAIN] += len(found)
        return [record for record in records if record.pos not in found]

    def _keep(
        self, letters: str, records: Sequence[BadRecord], fetched: FetchedMessages | None, table: str | None
    ) -> None:
        task, count = self.context.task, len(records)
        origin = LetterOrigin(self.context.errors.on_bad.pipeline, self.range.place, fetched, table)
        schema = self.context.warehouse.layout(letters, task.versions[letters].schema).schema
        rows = letter_rows(records, origin, task.now_millis, schema)
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


def with_message(record: BadRecord, change: ChangeBatch, fetched: FetchedMessages | None) -> BadRecord:
    """Return the bad record with its message.

    A source without messages has rows only: the message is then made from the rows at this position.
    """
    if fetched is not None:
        place = int(np.searchsorted(fetched.messages.offsets, record.pos))
        return replace(record, raw=fetched.messages.values[place] or b"")
    rows = np.flatnonzero(change.positions == record.pos).tolist()
    # The old row of an update precedes the new one.
    images = rows[-2:] if len(rows) > 1 and is_retract(change.kinds[rows[-2]]) else rows[-1:]
    return replace(record, raw=row_message(change, images) if images else b"")


def _all_records(change: ChangeBatch, reason: str, message: str, fetched: FetchedMessages | None) -> list[BadRecord]:
    """Return each message of the change as a bad record."""
    values = dict(zip(fetched.messages.offsets.tolist(), fetched.messages.values, strict=True)) if fetched else {}
    # A message with several rows is one bad record: its rows have the same position.
    return [BadRecord(pos, reason, message, values.get(pos) or b"") for pos in np.unique(change.positions).tolist()]
