"""Writes the buckets of one table in one write task, and leaves compaction for later where that is possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.pipelines.mapping.target_tables import TargetVersion, state_at
from penstock.pipelines.tasks.history_rows import HistoryRows
from penstock.pipelines.tasks.router import UNASSIGNED
from penstock.pipelines.tasks.shuffle_rows import unpacked
from penstock.pipelines.tasks.task_stats import TaskStats
from penstock.row_kinds import RowKinds
from penstock.schema_evolution.row_versions import keeps_versions
from penstock.table.buckets.bucket_state import BucketState
from penstock.table.buckets.layout import ALONE, BucketMode, Layout, Writer
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


@dataclass(frozen=True, slots=True)
class CompactionTiming:
    """Which compaction the writers of a batch leave for later.

    `number` is the batch number, by which full compactions are due.
    """

    number: int = 0
    compacts_in_background: bool = False

    def full(self, store: TableStore, layout: Layout) -> bool:
        rule = FullCompaction.of(store, layout)
        return rule.is_due(self.number) and not rule.needs_all_buckets

    def waits(self, writer: BucketWriter) -> bool:
        """Return whether compaction of the bucket waits until after the commit.

        It does not wait if the bucket has too many sorted runs or if its full compaction is due in this batch.
        """
        layout = writer.files.layout
        if self.full(writer.files.store, layout):
            return False
        if not (writer.lags or (self.compacts_in_background and layout.has_keys and may_wait(layout))):
            return False
        return not BucketCompactor(writer.files, writer.state).is_behind()


INLINE = CompactionTiming()


def may_wait(layout: Layout) -> bool:
    """Return whether compaction can be done later.

    It can if no rows or changes that readers see depend on it, or if readers may wait.
    """
    spec = CompactionSpec.of(layout.schema)
    return spec.lags or not (spec.shows_by_compaction or spec.full_changelog)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One of the `writers` tasks that write a batch: what its tables share.

    In history tables, a row that differs only in the columns `unversioned` makes no version.
    """

    warehouse: CatalogSettings
    writers: int
    timing: CompactionTiming = INLINE
    user: str = ALONE.user
    unversioned: frozenset[str] = frozenset()
    budget: WriteBudget = field(default_factory=WriteBudget)
    stats: TaskStats = field(default_factory=TaskStats)


class TableTaskWriter:
    """Writes one table's buckets in one task, at the version of the batch."""

    def __init__(self, task: WriteTask, name: str, version: TargetVersion, own: int) -> None:
        """Open the table. `own` is the number of the task among the writers of the table."""
        self.name = name
        self._stats = task.stats
        self._timing = task.timing
        self._store = task.warehouse.store(name)
        self._layout = task.warehouse.layout(name, version.schema)
        self._arrow = arrow_schema(self._layout.schema.fields)
        # For tables whose keys are looked up, the snapshot at which the read tasks did so; for others the newest.
        self._state = state_at(self._store, version)
        self._budget, self._user = task.budget, Writer(task.user, own)
        self._budget.resize(self._layout.schema.typed)
        self._buckets: dict[int, BucketWriter] = {}
        self._partition = b""
        self._history: HistoryRows | None = None
        self._history_bucket = UNASSIGNED
        if keeps_versions(self._layout.schema):
            self._history = HistoryRows(self._store, self._layout.schema, self._state, task.unversioned)
        self._assigner: Assigner | None = None
        if self._layout.mode is BucketMode.DYNAMIC:
            self._assigner = Assigner(self._store, self._layout, self._state, own, task.writers)

    def accepts(self, partition: bytes, bucket: int) -> bool:
        """Return whether rows of this bucket can join the open buckets."""
        # With dynamic buckets all buckets of a partition stay open, since a blob of new keys may fill several.
        same = partition == self._partition
        if self._history:
            return same and (self._assigner is not None or bucket == self._history_bucket)
        return not self._buckets or (same and (self._assigner is not None or bucket in self._buckets))

    def write(self, partition: bytes, bucket: int, data: pa.Buffer) -> None:
        batch, kinds = unpacked(data, self._arrow)
        self._partition = partition
        if self._history is not None:
            # The meaning of a change depends on the changes before it, which may be in other blobs.
            self._history_bucket = UNASSIGNED if self._assigner is not None else bucket
            self._history.add(batch, kinds)
            if self._history.is_full:
                rows, kinds = self._history.versions()
                self._history.remember(rows, kinds)
                self._write(self._history_bucket, rows, kinds)
        else:
            self._write(bucket, batch, kinds)

    def _write(self, bucket: int, batch: pa.RecordBatch, kinds: RowKinds) -> None:
        # Changes that a history table has already leave no rows.
        if not len(kinds):
            return
        # Rows of known keys, and all rows of tables without dynamic buckets, come with their bucket.
        if bucket != UNASSIGNED or self._assigner is None:
            self._bucket(bucket).write(batch, kinds)
        else:
            hashes = key_hashes(self._layout, batch, self._layout.schema.trimmed_primary_keys)
            buckets = self._assigner.assign_partition(self._partition, hashes)
            for part in slices([self._partition], np.zeros(len(hashes), np.int64), buckets):
                self._bucket(part.bucket).write(batch.take(pa.array(part.rows)), kinds[part.rows])

    def finish(self) -> Sequence[CommitMessage]:
        if self._history is not None:
            if self._history:
                self._write(self._history_bucket, *self._history.versions())
            self._history.forget()
        full = self._timing.full(self._store, self._layout)
        messages = [writer.prepare(full=full) for writer in self._buckets.values()]
        for writer, message in zip(self._buckets.values(), messages, strict=True):
            self._count_files(writer.state, message)
        self._buckets = {}
        return messages if self._assigner is None else self._assigner.with_index(messages)

    def _count_files(self, state: BucketState, message: CommitMessage) -> None:
        # With the level, because an upgrade keeps the file's name: it is among the files before and after the
        # compaction.
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
            writer.compacts = writer.compacts and not self._timing.waits(writer)
            self._buckets[bucket] = writer
        return writer
