"""The writing half of a batch: sorted blobs in, files written, commit messages out. Runs in tasks."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.mapping.target_tables import TargetVersion
from penstock.pipelines.tasks.batch_result import TaskOutput, as_row
from penstock.pipelines.tasks.router import own_number
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE
from penstock.pipelines.tasks.table_task_writer import CompactionTiming, TableTaskWriter, WriteTask
from penstock.pipelines.tasks.task_stats import no_seconds, timed
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.write.memory_budget import WriteBudget


def write_task(
    warehouse: CatalogSettings,
    writers: int,
    timing: CompactionTiming,
    mark: ErrorMark,
    user: str,
    unversioned: frozenset[str],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow`. Its input is sorted by table, partition, bucket, range, position.

    The other parameters are as in `WriteTask`.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # One task uses one core: Spark runs as many tasks as there are cores.
        pa.set_cpu_count(1)
        with mark.carrying():
            task = WriteTask(warehouse, writers, timing, user, unversioned)
            for table, content in TaskWriter(task).results(batches):
                yield as_row(table, content)

    return write


@dataclass(slots=True)
class TaskWriter:
    """Writes a task's blobs, with one bucket open at a time, or one partition if buckets are dynamic.

    If the task dies half way, its files are orphans. An error that a retry cannot fix is returned as the result of its
    table, so that Spark does not run the task four times; the other tables are written.
    """

    task: WriteTask
    _table: TableTaskWriter | None = None
    _failed: set[str] = field(default_factory=set)

    def results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, TaskOutput]]:
        """Yield the result of each table's blobs, and the statistics last."""
        waited, stats = no_seconds(), self.task.stats
        yield from timed(self._results(timed(iter(batches), waited, "waited")), stats.seconds, "write")
        # The time in which Spark fetches and sorts the shuffle is not spent writing.
        stats.seconds["write"] -= waited["waited"]
        # Linux reports KiB.
        stats.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        yield NO_TABLE, stats

    def _results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, TaskOutput]]:
        for batch in batches:
            yield from self._batch(batch)
        yield from self._left(None, b"", 0)

    def _batch(self, batch: pa.RecordBatch) -> Iterator[tuple[str, TaskOutput]]:
        tables, partitions, buckets, writers, schemas, snapshots, blobs = (
            batch.column(name) for name in ("table", "partition", "bucket", "writer", "schema_id", "snapshot", "blob")
        )
        # Each of these rows is a blob with up to 8 MiB of table rows, so a loop over them costs little.
        for row in range(batch.num_rows):
            table = tables[row].as_py()
            if table == NO_TABLE:
                yield table, blobs[row].as_py()
                continue
            partition, bucket = partitions[row].as_py(), buckets[row].as_py()
            yield from self._left(table, partition, bucket)
            if table in self._failed:
                continue
            # From the row and not from the table's newest schema, which may be newer than the columns of the blob.
            version = TargetVersion(schemas[row].as_py(), snapshots[row].as_py())
            try:
                opened = self._table or self._opened(table, version, writers[row].as_py())
                opened.write(partition, bucket, blobs[row].as_buffer())
            except PenstockError as error:
                yield table, self._failure(table, error)
            else:
                self._table = opened

    def _opened(self, table: str, version: TargetVersion, writer: int) -> TableTaskWriter:
        return TableTaskWriter(self.task, table, version, own_number(table, writer, self.task.writers))

    def _left(self, table: str | None, partition: bytes, bucket: int) -> Iterator[tuple[str, TaskOutput]]:
        """Yield the messages of the open buckets that are finished, because the next blob belongs to another one."""
        now = self._table
        if now is None:
            return
        # Finished before another bucket is opened, so that an open bucket has the whole memory budget.
        if now.name != table or not now.accepts(partition, bucket):
            try:
                messages = now.finish()
            except PenstockError as error:
                yield now.name, self._failure(now.name, error)
                return
            for message in messages:
                yield now.name, message
        if now.name != table:
            self._table = None

    def _failure(self, table: str, error: PenstockError) -> PenstockError:
        if error.retryable:
            raise error
        self._failed.add(table)
        # The buffers of the failed table still occupy the old budget, and nothing will release them.
        self._table, self.task = None, replace(self.task, budget=WriteBudget())
        return error
