"""The writing half of a batch: sorted blobs in, files written, commit messages out. Runs in tasks."""

from __future__ import annotations

import pickle
import resource
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.mapping.target_tables import Version, state_at
from penstock.pipelines.tasks.reports import RangeReport, TableFailed, TaskStats, no_seconds, timed
from penstock.pipelines.tasks.router import UNASSIGNED, own_number
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, unpacked
from penstock.table.buckets.bucket_state import BucketState
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.buckets.postponed import ALONE, Writer
from penstock.table.buckets.route import key_hashes, slices
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.compaction.bucket_compactor import BucketCompactor
from penstock.table.compaction.full_compaction import FullCompaction
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.dynamic_buckets.assigner import Assigner
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.store import TableStore
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.write.bucket_writer import BucketWriter
from penstock.table.write.memory_budget import WriteBudget

COLUMNS = "table string, body binary"
SCHEMA = pa.schema([("table", pa.string()), ("body", pa.binary())])

Result: TypeAlias = bytes | CommitMessage | PenstockError | TaskStats


@dataclass(frozen=True, slots=True)
class CompactionTiming:
    """Which compaction the writers of a batch leave for later.

    `number` is the batch number, by which full compactions are due.
    """

    number: int = 0
    in_background: bool = False

    def full(self, store: TableStore, layout: Layout) -> bool:
        return FullCompaction.of(store, layout).is_due(self.number)

    def waits(self, writer: BucketWriter) -> bool:
        """Return whether compaction of the bucket waits until after the commit.

        It does not wait if the bucket has too many sorted runs or if its full compaction is due in this batch.
        """
        layout = writer.files.layout
        if self.full(writer.files.store, layout):
            return False
        if not (writer.lags or (self.in_background and layout.has_keys and may_wait(layout))):
            return False
        return not BucketCompactor(writer.files, writer.state).is_behind()


INLINE = CompactionTiming()


def may_wait(layout: Layout) -> bool:
    """Return whether compaction can be done later.

    It can if no rows or changes that readers see depend on it, or if readers may wait.
    """
    spec = CompactionSpec.of(layout.schema)
    return spec.lags or not (spec.shows_by_compaction or spec.full_changelog)


def write_task(
    warehouse: CatalogSettings, writers: int, compacting: CompactionTiming, mark: ErrorMark, user: str = ALONE.user
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow`. Its input is sorted by table, partition, bucket, range, position."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        with mark.carrying():
            for table, content in TaskWriter(warehouse, writers, compacting, user).results(batches):
                body = content if isinstance(content, bytes) else pickle.dumps(content)
                yield pa.RecordBatch.from_arrays(
                    [pa.array([table], pa.string()), pa.array([body], pa.binary())], schema=SCHEMA
                )

    return write


@dataclass(slots=True)
class TaskWriter:
    """Writes a task's blobs, with one bucket open at a time, or one partition if buckets are dynamic.

    Dies half way: its files are orphans. An error that a retry cannot fix is returned as the result of its table, so
    that Spark does not run the task four times; the other tables are written.
    """

    warehouse: CatalogSettings
    writers: int
    compacting: CompactionTiming = INLINE
    user: str = ALONE.user
    _table: TableTaskWriter | None = None
    _budget: WriteBudget = field(default_factory=WriteBudget)
    _failed: set[str] = field(default_factory=set)
    _stats: TaskStats = field(default_factory=TaskStats)

    def results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, Result]]:
        """Yield the result of each table's blobs, and the statistics last."""
        waited = no_seconds()
        yield from timed(self._results(timed(iter(batches), waited, "waited")), self._stats.seconds, "write")
        self._stats.seconds["write"] -= waited["waited"]
        self._stats.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        yield NO_TABLE, self._stats

    def _results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, Result]]:
        for batch in batches:
            yield from self._batch(batch)
        yield from self._left(None, b"", 0)

    def _batch(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Result]]:
        tables, partitions, buckets, writers, schemas, snapshots, blobs = (
            batch.column(name) for name in ("table", "partition", "bucket", "writer", "schema_id", "snapshot", "blob")
        )
        for row in range(batch.num_rows):
            table = tables[row].as_py()
            if table == NO_TABLE:
                yield table, blobs[row].as_py()
                continue
            partition, bucket = partitions[row].as_py(), buckets[row].as_py()
            yield from self._left(table, partition, bucket)
            if table in self._failed:
                continue
            version = Version(schemas[row].as_py(), snapshots[row].as_py())
            try:
                opened = self._table or self._opened(table, version, writers[row].as_py())
                opened.write(partition, bucket, blobs[row].as_buffer())
            except PenstockError as error:
                yield table, self._given_up(table, error)
            else:
                self._table = opened

    def _opened(self, table: str, version: Version, writer: int) -> TableTaskWriter:
        own = own_number(table, writer, self.writers)
        return TableTaskWriter(
            self.warehouse, table, version, own, self.writers, self._budget, self.compacting, self.user, self._stats
        )

    def _left(self, table: str | None, partition: bytes, bucket: int) -> Iterator[tuple[str, Result]]:
        """Yield the messages of the open buckets that are finished, because the next blob belongs to another one."""
        now = self._table
        if now is None:
            return
        if now.name != table or not now.goes_on(partition, bucket):
            try:
                messages = now.finish()
            except PenstockError as error:
                yield now.name, self._given_up(now.name, error)
                return
            for message in messages:
                yield now.name, message
        if now.name != table:
            self._table = None

    def _given_up(self, table: str, error: PenstockError) -> PenstockError:
        if error.retryable:
            raise error
        self._failed.add(table)
        self._table, self._budget = None, WriteBudget()
        return error


class TableTaskWriter:
    """Writes one table's buckets in one task, at the version of the batch."""

    def __init__(
        self,
        warehouse: CatalogSettings,
        name: str,
        version: Version,
        own: int,
        writers: int,
        budget: WriteBudget,
        compacting: CompactionTiming = INLINE,
        user: str = ALONE.user,
        stats: TaskStats | None = None,
    ) -> None:
        self.name = name
        self._stats = stats or TaskStats()
        self._compacting = compacting
        self._store = warehouse.store(name)
        self._layout = warehouse.layout(name, version.schema)
        self._arrow = arrow_schema(self._layout.schema.fields)
        self._state = state_at(self._store, version)
        self._budget, self._user = budget, Writer(user, own)
        budget.resize(self._layout.schema.typed)
        self._buckets: dict[int, BucketWriter] = {}
        self._partition = b""
        self._assigner: Assigner | None = None
        if self._layout.mode is BucketMode.DYNAMIC:
            self._assigner = Assigner(self._store, self._layout, self._state, own, writers)

    def goes_on(self, partition: bytes, bucket: int) -> bool:
        """Return whether rows of this bucket can join the open buckets."""
        same = partition == self._partition
        return not self._buckets or (same and (self._assigner is not None or bucket in self._buckets))

    def write(self, partition: bytes, bucket: int, data: pa.Buffer) -> None:
        batch, kinds = unpacked(data, self._arrow)
        self._partition = partition
        if bucket != UNASSIGNED or self._assigner is None:
            self._bucket(bucket).write(batch, kinds)
        else:
            hashes = key_hashes(self._layout, batch, self._layout.schema.trimmed_primary_keys)
            buckets = self._assigner.assign_partition(partition, hashes)
            for part in slices([partition], np.zeros(len(hashes), np.int64), buckets):
                self._bucket(part.bucket).write(batch.take(pa.array(part.rows)), kinds[part.rows])

    def finish(self) -> Sequence[CommitMessage]:
        full = self._compacting.full(self._store, self._layout)
        messages = [writer.prepare(full=full) for writer in self._buckets.values()]
        for writer, message in zip(self._buckets.values(), messages, strict=True):
            self._tell(writer.state, message)
        self._buckets = {}
        return messages if self._assigner is None else self._assigner.with_index(messages)

    def _tell(self, state: BucketState, message: CommitMessage) -> None:
        gone = {(file.name, file.level) for file in message.compact_before}
        joined = (*state.files, *message.new_files, *message.compact_after)
        live = [file for file in joined if (file.name, file.level) not in gone]
        level0 = sum(file.level == 0 for file in live)
        # Each file of level 0 is a sorted run; each deeper level is one sorted run.
        runs = level0 + len({file.level for file in live if file.level})
        made = (*message.new_files, *message.changelog_files, *message.compact_after, *message.compact_changelog)
        self._stats.add(
            TaskStats(
                files={self.name: len(live)},
                runs={self.name: runs},
                bytes=Counter({self.name: sum(file.size for file in made)}),
                merged=Counter({self.name: sum(file.row_count for file in message.new_files)}),
            )
        )

    def _bucket(self, bucket: int) -> BucketWriter:
        writer = self._buckets.get(bucket)
        if writer is None:
            state = self._state.bucket(self._partition, bucket)
            place = (self._partition, bucket)
            writer = BucketWriter.opened(self._store, self._layout, *place, state, self._budget, self._user)
            writer.compacts = writer.compacts and not self._compacting.waits(writer)
            self._buckets[bucket] = writer
        return writer


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The output of a batch's tasks.

    It has the commit messages by table, the reports of the ranges in order, and errors, either of the whole batch or of
    single tables.
    """

    messages: dict[str, list[CommitMessage]] = field(default_factory=dict)
    reports: list[RangeReport] = field(default_factory=list)
    failures: list[PenstockError] = field(default_factory=list)
    failed: dict[str, PenstockError] = field(default_factory=dict)
    stats: TaskStats = field(default_factory=TaskStats)

    @classmethod
    def of(cls, rows: pa.Table) -> BatchResult:
        written = cls()
        for table, body in zip(rows.column("table").to_pylist(), rows.column("body").to_pylist(), strict=True):
            match pickle.loads(body):  # noqa: S301  made by our own tasks
                case PenstockError() as failure if table == NO_TABLE:
                    written.failures.append(failure)
                case PenstockError() as failure:
                    written.failed.setdefault(table, failure)
                case TableFailed(failed, failure):
                    written.failed.setdefault(failed, failure)
                case RangeReport() as report:
                    written.reports.append(report)
                    errors = {name: of_table.error for name, of_table in report.tables.items()}
                    written.failed.update({name: error for name, error in errors.items() if error is not None})
                    written.stats.spend(report.seconds)
                case TaskStats() as stats:
                    written.stats.add(stats)
                case CommitMessage() as message:
                    written.messages.setdefault(table, []).append(message)
        written.reports.sort(key=lambda report: report.range.number)
        return written
