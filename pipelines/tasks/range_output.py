"""The fitted rows of a range as blobs for the shuffle. Each blob has the bucket and the writer of its rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.formats.change import BadRecord, ChangeBatch, Int64s, RowBatch
from penstock.pipelines.mapping.target_tables import TargetVersion
from penstock.pipelines.tasks.range_report import RangeReport
from penstock.pipelines.tasks.router import Router
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, Blob, RowWindow, as_batch, pieces
from penstock.pipelines.tasks.task_input import TaskContext

BLOBS_PER_BATCH = 64  # rows of the fixed schema passed to Spark at a time
BYTES_PER_BATCH = 4 << 20


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


def left_out_rows(read: ChangeBatch, change: ChangeBatch, unread: Sequence[BadRecord]) -> int:
    """Return how many of the rows that were read a transform left out. Rows of refused messages are bad records."""
    if change is read:
        return 0
    refused = np.isin(read.positions, [record.pos for record in unread]) if unread else np.zeros(0, np.bool_)
    # A lookup with several matches repeats a row, with the same numbers.
    repeated = (change.positions[1:] == change.positions[:-1]) & (change.subs[1:] == change.subs[:-1])
    return len(read) - int(refused.sum()) - len(change) + int(repeated.sum())
