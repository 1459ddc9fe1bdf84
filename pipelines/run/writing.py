"""The writing half of a batch: sorted blobs in, files written, commit messages out. Runs in tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.ingest.carried import carrying
from penstock.pipelines.run.blobs import NO_TABLE, unpacked
from penstock.pipelines.run.reports import RangeReport
from penstock.pipelines.run.tables import Warehouse
from penstock.table.layout import Layout
from penstock.table.meta.entries import CommitMessage
from penstock.table.schema.options import Options
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.write.bucket_writer import BucketWriter
from penstock.table.write.state import TableState

COLUMNS = "table string, body binary"
SCHEMA = pa.schema([("table", pa.string()), ("body", pa.binary())])


def write_task(warehouse: Warehouse) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of `mapInArrow`: rows come sorted by table, partition, bucket, range, position."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        with carrying():
            for table, body in Writing(warehouse).bodies(batches):
                yield pa.RecordBatch.from_arrays(
                    [pa.array([table], pa.string()), pa.array([body], pa.binary())], schema=SCHEMA
                )

    return write


@dataclass(slots=True)
class Writing:
    """Goes through a task's blobs, one bucket open at a time. Dies half way: its files are orphans."""

    warehouse: Warehouse
    _table: TableWriting | None = None

    def bodies(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
        for batch in batches:
            tables, versions, partitions, buckets, blobs = (
                batch.column(name) for name in ("table", "schema_id", "partition", "bucket", "blob")
            )
            for row in range(batch.num_rows):
                table = tables[row].as_py()
                if table == NO_TABLE:
                    yield table, blobs[row].as_py()
                    continue
                yield from self._left(table, partitions[row].as_py(), buckets[row].as_py())
                if self._table is None:
                    self._table = TableWriting(self.warehouse, table)
                place = (partitions[row].as_py(), buckets[row].as_py())
                self._table.write(*place, versions[row].as_py(), blobs[row].as_buffer())
        yield from self._left(None, b"", 0)

    def _left(self, table: str | None, partition: bytes, bucket: int) -> Iterator[tuple[str, bytes]]:
        """The message of the bucket that is done when the next blob is of another."""
        now = self._table
        if now is None or (now.name, now.place) == (table, (partition, bucket)):
            return
        message = now.finish()
        if message is not None:
            yield now.name, pickle.dumps(message)
        if now.name != table:
            self._table = None


class TableWriting:
    """One table's buckets in one task, at the snapshot that was newest when the task came to it."""

    def __init__(self, warehouse: Warehouse, name: str) -> None:
        self.name = name
        self.place: tuple[bytes, int] | None = None
        self._warehouse = warehouse
        self._store = warehouse.store(name)
        self._state = TableState(self._store, self._store.snapshots.latest())
        self._writer: BucketWriter | None = None
        self._layout: Layout | None = None
        self._budget = 0

    def write(self, partition: bytes, bucket: int, version: int, data: pa.Buffer) -> None:
        if self._writer is None or self._layout is None:
            self._layout = self._warehouse.layout(self.name, version)
            self._writer = self._opened(self._layout, partition, bucket)
            self.place = (partition, bucket)
        batch, kinds = unpacked(data, arrow_schema(self._layout.schema.fields))
        self._writer.write(batch, kinds.astype(np.int8))
        if self._writer.held_bytes > self._budget:
            self._writer.flush()

    def finish(self) -> CommitMessage | None:
        writer, self._writer, self.place = self._writer, None, None
        return None if writer is None else writer.prepare()

    def _opened(self, layout: Layout, partition: bytes, bucket: int) -> BucketWriter:
        options = Options(layout.schema.options)
        self._budget = options.size("write-buffer-size", 256 << 20)
        state = self._state.bucket(partition, bucket)
        return BucketWriter.opened(self._store, layout, partition, bucket, state)


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch's tasks made: commit messages by table, and the reports of its ranges in order."""

    messages: dict[str, list[CommitMessage]] = field(default_factory=dict)
    reports: list[RangeReport] = field(default_factory=list)

    @classmethod
    def of(cls, rows: pa.Table) -> Written:
        written = cls()
        for table, body in zip(rows.column("table").to_pylist(), rows.column("body").to_pylist(), strict=True):
            content = pickle.loads(body)  # noqa: S301  made by our own tasks
            if table == NO_TABLE:
                written.reports.append(content)
            else:
                written.messages.setdefault(table, []).append(content)
        written.reports.sort(key=lambda report: report.range.number)
        return written
