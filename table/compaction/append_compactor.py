"""Compaction of one bucket of an append table: small files are rewritten together, without their deleted rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.buckets.bucket_files import BucketFiles, Vectors, dropped_vectors, read_vectors, write_vectors
from penstock.table.buckets.bucket_state import BucketState
from penstock.table.buckets.layout import BucketMode
from penstock.table.compaction.append_policy import AppendPolicy, pick_bins, pick_bucket, pick_idle_bins, pick_window
from penstock.table.compaction.compaction_result import CompactionResult
from penstock.table.compaction.row_order import RowOrder, ordered_rows
from penstock.table.files.file_reader import FileReader
from penstock.table.files.file_writer import RollingWriter
from penstock.table.files.null_free import null_free_in
from penstock.table.meta.data_file import DataFile, FileSource
from penstock.table.options.writers import ROW_TRACKING_ENABLED, WRITE_BUFFER_SIZE

Arranged = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.Table]]


@dataclass
class AppendCompactor:
    """The compaction of an append bucket. In a bucket, rows keep their order and their sequence numbers."""

    files: BucketFiles
    state: BucketState

    def compact(self, new_files: Sequence[DataFile] = (), *, full: bool = False) -> CompactionResult:
        """Run the compactions that are due once `new_files` are added to the bucket."""
        # Writers call this after every batch, so it must not fail there. An explicit full compaction is refused
        # with a hint.
        if self._tracks_rows and not full:
            return CompactionResult()
        live = _ordered((*self.state.files, *new_files))
        if self._has_order:
            chosen = pick_bucket(self._policy, live, self._vectors) if full else pick_window(self._policy, live)
            return self._rewritten([chosen] if chosen else [])
        return self._rewritten(pick_bins(self._policy, live, self._deleted_rows, full=full))

    def compact_due(self) -> CompactionResult:
        """Run the compaction that `is_due` reports."""
        return self._rewritten(self._due())

    def is_due(self) -> bool:
        """Return whether a compaction in the background is due. Reads index files, but no data files."""
        return bool(self._due())

    def ordered(self, order: RowOrder) -> CompactionResult:
        """Rewrite all rows of the bucket in the given order, so that each file has a range of it."""
        most = self.files.layout.schema.typed[WRITE_BUFFER_SIZE]
        files = _ordered(self.state.files)
        return self._rewritten([files] if files else [], lambda rows: ordered_rows(rows, order, most // 4))

    def _due(self) -> list[list[DataFile]]:
        live = _ordered(self.state.files)
        if self._tracks_rows:
            return []
        if self._has_order:
            chosen = pick_window(self._policy, live)
            return [chosen] if chosen else []
        return pick_idle_bins(self._policy, live, self._deleted_rows)

    @property
    def _has_order(self) -> bool:
        return self.files.layout.mode is not BucketMode.UNAWARE

    @property
    def _tracks_rows(self) -> bool:
        return self.files.layout.schema.typed[ROW_TRACKING_ENABLED]

    @cached_property
    def _policy(self) -> AppendPolicy:
        return AppendPolicy.of(self.files.layout.schema.typed)

    @cached_property
    def _vectors(self) -> Vectors:
        return read_vectors(self.files, self.state)

    @property
    def _deleted_rows(self) -> dict[str, int]:
        return {name: len(rows) for name, rows in self._vectors.items()}

    def _rewritten(self, groups: Sequence[Sequence[DataFile]], arranged: Arranged | None = None) -> CompactionResult:
        """Rewrite each group of files without their deleted rows."""
        if not groups:
            return CompactionResult()
        if self._tracks_rows:
            raise ConfigError(
                "a table with row-tracking.enabled cannot be compacted by Penstock: its rows would lose their ids",
                table=self.files.store.name,
                hint="compact it with Flink's or Spark's Paimon",
            )
        writers: list[RollingWriter] = []
        after: list[DataFile] = []
        done = False
        try:
            for group in groups:
                # The rows keep their sequence numbers, by which readers order the files of a bucket.
                start = min(file.min_sequence for file in group)
                without_nulls = null_free_in(group, self.files.layout.schema)
                writer = self.files.open(source=FileSource.COMPACT, first_sequence=start, without_nulls=without_nulls)
                writers.append(writer)
                for rows in self._rows(group) if arranged is None else arranged(self._rows(group)):
                    writers[-1].write(rows)
                after += writers[-1].finish()
            done = True
        finally:
            if not done:
                for writer in writers:
                    writer.abort()
        return self._with_index(CompactionResult(tuple(file for group in groups for file in group), tuple(after)))

    def _rows(self, group: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
        store, schema = self.files.store, self.files.layout.schema
        facts = {"table": store.name, "bucket": self.files.bucket}
        reader = FileReader(store.storage, self.files.path, store.schemas.get, schema.fields, facts=facts)
        return (batch for file in group for batch in reader.read(file, vector=self._vectors.get(file.name)))

    def _with_index(self, result: CompactionResult) -> CompactionResult:
        """Return the result without the deletion vectors of the rewritten files."""
        rewritten = {file.name for file in result.before}
        left = {name: vector for name, vector in self._vectors.items() if name not in rewritten}
        if len(left) == len(self._vectors):
            return result
        index = [write_vectors(self.files, left)] if left else dropped_vectors(self.state)
        return CompactionResult(result.before, result.after, vectors=left, index=tuple(index))


def _ordered(files: Sequence[DataFile]) -> list[DataFile]:
    return sorted(files, key=lambda file: file.min_sequence)
