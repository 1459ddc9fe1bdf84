"""The writer of one bucket: it buffers rows, writes them to files, and compacts them with the existing files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from penstock.row_kinds import RowKinds
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.bucket_state import BucketState, check_total
from penstock.table.buckets.layout import ALONE, BucketMode, Layout, Writer, postponed_layout
from penstock.table.compaction.bucket_compactor import BucketCompactor
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.options.compaction import WRITE_ONLY
from penstock.table.write.append_buffer import AppendBuffer
from penstock.table.write.keyed_buffer import KeyedBuffer
from penstock.table.write.memory_budget import WriteBudget


class BucketRows(Protocol):
    """The write buffer of a bucket, implemented by KeyedBuffer and AppendBuffer."""

    next_sequence: int
    new_files: list[DataFile]
    changelog_files: list[DataFile]

    def add(self, batch: pa.RecordBatch, kinds: RowKinds) -> None: ...

    def flush(self) -> None: ...

    def abort(self) -> None: ...


@dataclass(slots=True)
class BucketWriter:
    """A writer of one bucket, whose buffer stays within a memory budget.

    If it dies half way, its files are orphans and the table is unchanged. `compacts`: every commit compacts the bucket.
    `lags`: files added by a commit are compacted only after that commit.
    """

    rows: BucketRows
    files: BucketFiles
    state: BucketState
    compacts: bool = True
    lags: bool = False
    _first_sequence: int = field(init=False)

    def __post_init__(self) -> None:
        # Where the numbering began. The least number in the files may be greater, since rows that were replaced
        # within the batch are in no file; a check by that number would miss rows of another job.
        self._first_sequence = self.rows.next_sequence

    @classmethod
    def opened(
        cls,
        store: TableStore,
        layout: Layout,
        partition: bytes,
        bucket: int,
        state: BucketState,
        budget: WriteBudget,
        writer: Writer = ALONE,
    ) -> BucketWriter:
        """Create a writer by the table's options. ConfigError when the partition has another number of buckets."""
        check_total(layout, partition, state, store.name)
        if layout.mode is BucketMode.POSTPONE:
            files = BucketFiles(store, postponed_layout(layout, writer), partition, bucket)
            return cls(AppendBuffer(files, budget, 0, with_kinds=True), files, state, compacts=False)
        files = BucketFiles(store, layout, partition, bucket)
        options = layout.schema.typed
        # Without buckets many writers share a partition, so that its compaction is a separate job.
        compacts = layout.mode is not BucketMode.UNAWARE and not options[WRITE_ONLY]
        if not layout.has_keys:
            return cls(AppendBuffer(files, budget, state.next_sequence), files, state, compacts)
        keeps_input = options[CHANGELOG_PRODUCER].copies_input
        rows = KeyedBuffer(merge_spec(layout.schema), files, budget, state.next_sequence, keeps_input)
        return cls(rows, files, state, compacts, CompactionSpec.of(layout.schema).lags)

    def write(self, batch: pa.RecordBatch, kinds: RowKinds) -> None:
        """Buffer rows."""
        self.rows.add(batch, kinds)

    def abort(self) -> None:
        """Discard the buffered rows, and delete the files that were written but not yet returned."""
        self.rows.abort()
        self.files.delete(self.unwritten())

    def prepare(self, *, full: bool = False, waits: bool = True) -> CommitMessage:
        """Return the files written since the last call, to be committed.

        With `full`, also compact the whole bucket into one run. Without `waits`, a bucket that may lag compacts only
        files that were committed before. The writer can write more rows once its `state` is that of the next snapshot.
        """
        self.rows.flush()
        message = self.unwritten()
        if not self.compacts:
            return message
        added = () if self.lags and not (waits or full) else message.new_files
        return BucketCompactor(self.files, self.state).compact(added, full=full).into(message)

    def unwritten(self) -> CommitMessage:
        """Return the files written since the last call; buffered rows are not included."""
        message = CommitMessage(
            partition=self.files.partition,
            bucket=self.files.bucket,
            total_buckets=self.files.layout.bucket_count,
            new_files=tuple(self.rows.new_files),
            changelog_files=tuple(self.rows.changelog_files),
            base_snapshot=self.state.snapshot,
            base_mark=self.state.mark,
            first_sequence=self._first_sequence,
            vectors_read=self.state.vector_files,
        )
        self._first_sequence = self.rows.next_sequence
        self.rows.new_files, self.rows.changelog_files = [], []
        return message
