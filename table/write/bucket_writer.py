"""One bucket being written: rows held back in arrival order, then numbered, sorted, merged and put into files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.table.files.writing import RollingWriter
from penstock.table.layout import BucketMode, Layout
from penstock.table.lsm.merge.rows import merge_buffer, sort_buffer
from penstock.table.lsm.merge.spec import KIND, SEQUENCE, MergeSpec
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.store import TableStore
from penstock.table.schema.options import Options
from penstock.table.write.compacting import BucketCompactor
from penstock.table.write.opening import BucketFiles
from penstock.table.write.rows import Kinds
from penstock.table.write.state import BucketState, check_total


@dataclass(slots=True)
class BucketWriter:
    """Holds the rows since the last flush. Dies half way: its files are orphans, the table has not changed.

    `keeps_input`: every row goes to a changelog as it came. `compacts`: the bucket is compacted with each commit.
    """

    merge: MergeSpec | None
    files: BucketFiles
    state: BucketState
    keeps_input: bool = False
    compacts: bool = True
    _next_sequence: int = field(init=False)
    _batches: list[tuple[pa.RecordBatch, Kinds]] = field(default_factory=list)
    _held: int = 0
    _new_files: list[DataFile] = field(default_factory=list)
    _changelog_files: list[DataFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._next_sequence = self.state.next_sequence

    @classmethod
    def opened(
        cls, store: TableStore, layout: Layout, partition: bytes, bucket: int, state: BucketState
    ) -> BucketWriter:
        """By the table's options. ConfigError when its partition was written with another number of buckets."""
        check_total(layout, state, store.name)
        options = Options(layout.schema.options)
        in_place = layout.mode not in {BucketMode.UNAWARE, BucketMode.POSTPONE}
        return cls(
            MergeSpec.of(layout.schema) if layout.has_keys else None,
            BucketFiles(store, layout, partition, bucket),
            state,
            keeps_input=options.text("changelog-producer", "none").strip().lower() == "input",
            compacts=in_place and not options.boolean("write-only", default=False),
        )

    @property
    def held_bytes(self) -> int:
        return self._held

    def write(self, batch: pa.RecordBatch, kinds: Kinds) -> None:
        self._batches.append((batch, kinds))
        self._held += batch.nbytes

    def flush(self) -> None:
        """Put what is held into files; the rows of a later flush are later in order."""
        if not self._batches:
            return
        first = self._next_sequence
        rows = self._numbered()
        if self.merge is None:
            self._new_files += self._written(self.files.open(first_sequence=first), rows)
        else:
            if self.keeps_input:
                self._changelog_files += self._written(self.files.open(changelog=True), sort_buffer(self.merge, rows))
            self._new_files += self._written(self.files.open(), merge_buffer(self.merge, rows))
        self._batches.clear()
        self._held = 0

    def _numbered(self) -> pa.Table:
        rows = pa.Table.from_batches([batch for batch, _ in self._batches])
        first = self._next_sequence
        self._next_sequence += rows.num_rows
        if self.merge is None:
            return rows
        kinds = np.concatenate([kinds for _, kinds in self._batches])
        return rows.add_column(0, KIND, pa.array(kinds, pa.int8())).add_column(
            0, SEQUENCE, pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
        )

    @staticmethod
    def _written(writer: RollingWriter, rows: pa.Table) -> list[DataFile]:
        try:
            writer.write(rows)
            return writer.finish()
        except BaseException:
            writer.abort()
            raise

    def prepare(self, *, full: bool = False) -> CommitMessage:
        """What was made since the last call, to be committed, and with `full` all of the bucket in one run.

        The writer goes on from there, once it is told the new state of the bucket.
        """
        self.flush()
        message = self.unwritten()
        if not self.compacts:
            return message
        rewritten = BucketCompactor(self.files, self.state).due(message.new_files, full=full)
        return replace(
            message,
            compact_before=rewritten.before,
            compact_after=rewritten.after,
            compact_changelog=rewritten.changelog,
            compact_index_changes=rewritten.index,
        )

    def unwritten(self) -> CommitMessage:
        """The files made since the last call; rows that are still held are not among them."""
        message = CommitMessage(
            partition=self.files.partition,
            bucket=self.files.bucket,
            total_buckets=self.files.layout.bucket_count,
            new_files=tuple(self._new_files),
            changelog_files=tuple(self._changelog_files),
            base_snapshot=self.state.snapshot,
        )
        self._new_files, self._changelog_files = [], []
        return message
