"""The write buffer of rows that are written unmerged: rows of append tables and rows of the postponed bucket."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.row_kinds import RowKinds
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.files.columns import SEQUENCE_NUMBER, VALUE_KIND
from penstock.table.files.file_writer import RollingWriter
from penstock.table.meta.data_file import DataFile
from penstock.table.write.memory_budget import WriteBudget

# Java's number for postponed rows; a compaction assigns the numbers of their buckets.
UNKNOWN_SEQUENCE = -1


@dataclass(slots=True)
class AppendBuffer:
    """The buffered rows of a bucket, which are written in order of arrival.

    `with_kinds` adds row kinds and an unknown sequence number, as the postponed bucket has them.
    """

    files: BucketFiles
    budget: WriteBudget
    next_sequence: int
    with_kinds: bool = False
    new_files: list[DataFile] = field(default_factory=list)
    changelog_files: list[DataFile] = field(default_factory=list)
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _buffered: int = 0
    _open: RollingWriter | None = None

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes of the buffered rows."""
        return self._buffered

    def add(self, batch: pa.RecordBatch, kinds: RowKinds) -> None:
        """Buffer rows, and report their size to the budget."""
        rows = _with_kinds(batch, kinds) if self.with_kinds else batch
        self._batches.append(rows)
        self._buffered += rows.nbytes
        self.budget.grew(self, rows.nbytes)

    def release(self) -> None:
        """Write the buffered rows to the bucket's file, which stays open for more rows if few other files are open."""
        if self._batches:
            streams = self._open is not None or self.budget.may_stream()
            self._write()
            if not streams:
                self._finish()

    def flush(self) -> None:
        """Write all rows, and finish the open file."""
        if self._batches:
            streams = self._open is not None
            self._write()
            self._finish()
            if streams:
                self.budget.stream_closed()
        elif self._open is not None:
            self._finish()
            self.budget.stream_closed()

    def abort(self) -> None:
        """Discard the buffered rows, and delete the unfinished file."""
        self._batches.clear()
        self._let_go()
        if self._open is not None:
            self._open.abort()
            self._open = None
            self.budget.stream_closed()

    def _write(self) -> None:
        if self._open is None:
            self._open = self.files.open(first_sequence=self.next_sequence)
        for batch in self._batches:
            self._open.write(batch)
            self.next_sequence += batch.num_rows
        self._batches.clear()
        self._let_go()

    def _finish(self) -> None:
        assert self._open is not None
        self.new_files += self._open.finish()
        self._open = None

    def _let_go(self) -> None:
        buffered, self._buffered = self._buffered, 0
        self.budget.shrank(self, buffered)


def _with_kinds(batch: pa.RecordBatch, kinds: RowKinds) -> pa.RecordBatch:
    numbers = pa.array(np.full(batch.num_rows, UNKNOWN_SEQUENCE, np.int64))
    return pa.RecordBatch.from_arrays(
        [numbers, pa.array(kinds, pa.int8()), *batch.columns],
        names=[SEQUENCE_NUMBER.name, VALUE_KIND.name, *batch.schema.names],
    )
