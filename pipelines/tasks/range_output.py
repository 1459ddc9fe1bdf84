"""The output of a range: its fitted rows as blobs for the shuffle, and its bad records.

Each blob has the bucket and the writer of its rows. Bad records are counted in the report, and become rows of the
dead-letter table.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.errors import DecodeError, PenstockError
from penstock.formats.change import BAD_VALUE, NO_NAME, BadRecord, ChangeBatch, Int64s, RowBatch
from penstock.formats.row_message import row_message
from penstock.ingest.decoded_source import FetchedMessages
from penstock.ingest.source import Range
from penstock.pipelines.mapping.target_tables import TargetVersion
from penstock.pipelines.tasks import bad_records
from penstock.pipelines.tasks.kept_rows import rows_with_letter
from penstock.pipelines.tasks.range_report import RangeReport
from penstock.pipelines.tasks.router import Router
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, Blob, RowWindow, as_batch, pieces
from penstock.pipelines.tasks.task_input import TaskContext
from penstock.row_kinds import INSERT, is_retract
from penstock.table.buckets.layout import Layout

BLOBS_PER_BATCH = 64  # rows of the fixed schema passed to Spark at a time
BYTES_PER_BATCH = 4 << 20
UNREADABLE_AGAIN = "unreadable.again"  # among the skipped messages: of deferred ranges
BAD_AGAIN = "bad.again"  # among the skipped messages: rows that have a dead letter already


class BlobPacker:
    """The rows of one range on their way to the shuffle. Blobs are numbered in the order in which they are made.

    For joined ranges, `range_number` is the number of the first range, and `numbers` returns the range number of each
    row by its position.
    """

    def __init__(
        self, context: TaskContext, range_number: int, numbers: Callable[[Int64s], Int64s] | None = None
    ) -> None:
        self._context, self._range, self._numbers = context, range_number, numbers
        self._window = RowWindow()
        self._position = 0
        self._routers: dict[str, Router] = {}

    @property
    def is_full(self) -> bool:
        return self._window.is_full

    def add(self, table: str, batch: RowBatch) -> None:
        self._window.add(table, batch)

    def forget(self, table: str) -> None:
        """Discard the rows of the table that are not packed yet."""
        self._window.forget(table)

    def packed(self, fail: Callable[[str, PenstockError], None]) -> Iterator[pa.RecordBatch]:
        """Yield all rows added so far as blobs. `fail` is called with a table whose rows cannot be packed."""
        blobs: list[Blob] = []
        size = 0
        for blob in self._blobs(fail):
            blobs.append(blob)
            size += blob.size
            if len(blobs) >= BLOBS_PER_BATCH or size >= BYTES_PER_BATCH:
                yield self._numbered(blobs)
                blobs, size = [], 0
        if blobs:
            yield self._numbered(blobs)

    def report(self, content: RangeReport | PenstockError) -> pa.RecordBatch:
        """Return the report of the range, which follows its blobs.

        All reports of a task go to one writer. If Spark runs the task again after some writers have read its first
        output, joined ranges may be others, and the reports of both runs together would count rows twice or not at all.
        """
        first = self._context.task.ranges[0].number
        blob = Blob(NO_TABLE, TargetVersion(0), b"", 0, first, 1, pickle.dumps(content))
        return as_batch(self._range, self._position, [blob])

    def _numbered(self, blobs: list[Blob]) -> pa.RecordBatch:
        batch = as_batch(self._range, self._position, blobs)
        self._position += len(blobs)
        return batch

    def _blobs(self, fail: Callable[[str, PenstockError], None]) -> Iterator[Blob]:
        for table, batch in self._window.drain():
            try:
                yield from self._blobs_of(table, batch)
            except PenstockError as error:
                fail(table, error)

    def _blobs_of(self, table: str, batch: RowBatch) -> Iterator[Blob]:
        router = self._router(table)
        for part in router.parts(batch.rows, self._numbers(batch.positions) if self._numbers else self._range):
            # A take copies all rows, which a table with one bucket does not need.
            whole = len(part.rows) == len(batch)
            rows = batch.rows if whole else batch.rows.take(pa.array(part.rows))
            for count, data in pieces(rows, batch.kinds if whole else batch.kinds[part.rows], table):
                yield Blob(table, router.version, part.partition, part.bucket, part.writer, count, data)

    def _router(self, table: str) -> Router:
        router = self._routers.get(table)
        if router is None:
            context = self._context
            router = Router(context.warehouse, table, context.task.versions[table], context.writers)
            self._routers[table] = router
        return router


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
        """Return the messages that an earlier batch could read, of messages that cannot be read now.

        A schema registry may have lost a schema in between. A message that the earlier batch could not read has a dead
        letter. A message that this batch also reads for the first time has no dead letter yet; that reading reports it.
        """
        on_bad, reading = self.context.errors.on_bad, self.report.reading
        new_from = None if reading is None else reading.new_from
        before = [record for record in records if new_from is None or record.pos < new_from]
        self.report.bad_too.add([record for record in records if new_from is not None and record.pos >= new_from])
        if on_bad.table is None or not before or not self.context.keeps_letters:
            return ()
        kept = bad_records.kept(self.context.warehouse, on_bad, self.range.place, before)
        return [record for record in before if bad_records.source_position(self.range.place, record) not in kept]

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
        rows = bad_records.rows(
            records,
            pipeline=self.context.errors.on_bad.pipeline,
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


def left_out_rows(read: ChangeBatch, change: ChangeBatch, unread: Sequence[BadRecord]) -> int:
    """Return how many of the rows that were read a transform left out. Rows of refused messages are bad records."""
    if change is read:
        return 0
    refused = np.isin(read.positions, [record.pos for record in unread]) if unread else np.zeros(0, np.bool_)
    # A lookup with several matches repeats a row, with the same numbers.
    repeated = (change.positions[1:] == change.positions[:-1]) & (change.subs[1:] == change.subs[:-1])
    return len(read) - int(refused.sum()) - len(change) + int(repeated.sum())


def _all_records(change: ChangeBatch, reason: str, message: str, fetched: FetchedMessages | None) -> list[BadRecord]:
    """Return each message of the change as a bad record."""
    values = dict(zip(fetched.messages.offsets.tolist(), fetched.messages.values, strict=True)) if fetched else {}
    # A message with several rows is one bad record: its rows have the same position.
    return [BadRecord(pos, reason, message, values.get(pos) or b"") for pos in np.unique(change.positions).tolist()]
