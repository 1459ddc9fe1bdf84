"""Packs the fitted rows of a range into blobs for the shuffle, each with the bucket and the writer of its rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.formats.change import RowBatch
from penstock.pipelines.mapping.target_tables import TableVersion
from penstock.pipelines.tasks.reports import RangeReport
from penstock.pipelines.tasks.router import Router
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, Blob, RowWindow, as_batch, pieces
from penstock.pipelines.tasks.task_input import TaskContext

BLOBS_PER_BATCH = 64  # rows of the fixed schema passed to Spark at a time
BYTES_PER_BATCH = 4 << 20


class BlobPacker:
    """The rows of one range on their way to the shuffle. Blobs are numbered in the order in which they are made."""

    def __init__(self, context: TaskContext, range_number: int) -> None:
        self._context, self._range = context, range_number
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
        """Return the report of the range, which follows its blobs."""
        blob = Blob(NO_TABLE, TableVersion(0), b"", 0, self._range, 1, pickle.dumps(content))
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
        for part in router.parts(batch.rows, self._range):
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
