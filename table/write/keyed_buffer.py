"""The write buffer of a bucket with a primary key, which spills sorted runs to local disk when memory is short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.row_kinds import RowKinds
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.files.null_free import null_free
from penstock.table.merge.bounded_merge import MAX_OPEN_RUNS, SortedRun, cut_by_keys, steps
from penstock.table.merge.key_groups import KIND, SEQUENCE, KeyGroups, concat_parts, group_rows, kinds_of
from penstock.table.merge.merge_rows import merge_groups
from penstock.table.merge.spec import MergeSpec
from penstock.table.meta.data_file import DataFile
from penstock.table.options.table_options import TableOptions
from penstock.table.options.writers import SPILL_COMPRESSION, SPILL_COMPRESSION_ZSTD_LEVEL, WRITE_BUFFER_SPILLABLE
from penstock.table.values.buffers import one_batch, rows_at
from penstock.table.write.memory_budget import WriteBudget

# Arrow has no lzo. Only this process reads what it spills, so another codec does no harm.
_CODECS = {"zstd": "zstd", "lz4": "lz4", "none": None, "lzo": "lz4"}


@dataclass(frozen=True, slots=True)
class SpilledRun:
    """A file of sorted rows on local disk."""

    path: Path
    size: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches; only one is decompressed at a time."""
        with pa.OSFile(str(self.path)) as source, pa.ipc.open_stream(source) as stream:
            yield from stream

    def delete(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)


def spill(path: Path, pieces: Iterable[pa.Table], options: TableOptions) -> SpilledRun:
    """Write each piece as one batch. If it dies half way, an incomplete file remains in a temporary folder."""
    writer = None
    try:
        for piece in pieces:
            writer = writer or pa.ipc.new_stream(str(path), piece.schema, options=_encoding(options))
            writer.write_batch(one_batch(piece))  # two batches might split a key
    finally:
        if writer is not None:
            writer.close()
    return SpilledRun(path, path.stat().st_size)


def _encoding(options: TableOptions) -> pa.ipc.IpcWriteOptions:
    name = options[SPILL_COMPRESSION].strip().lower()
    if name not in _CODECS:
        raise ConfigError(f"spill-compression = {name!r} is not known", hint=f"choices are {', '.join(_CODECS)}")
    level = options[SPILL_COMPRESSION_ZSTD_LEVEL]
    codec = pa.Codec("zstd", level) if name == "zstd" else _CODECS[name]
    return pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)


# Rows are fetched in key order in pieces of this size: a copy of all rows would double the memory.
_PIECE_ROWS, _PIECE_BYTES = 131_072, 32 << 20
# The least bytes of a spilled run in memory while runs are merged; smaller parts cost more than they save.
_LEAST_PART = 256 << 10
# The overhead of a batch and of its columns, which for small batches exceeds their values.
_BATCH_BYTES, _COLUMN_BYTES = 512, 256


@dataclass(slots=True)
class KeyedBuffer:
    """The buffered rows of a bucket. `next_sequence` is the sequence number of the next row.

    Rows that were released to disk or to files are older than the rows in memory.
    """

    merge: MergeSpec
    files: BucketFiles
    budget: WriteBudget
    next_sequence: int
    keeps_input: bool = False
    new_files: list[DataFile] = field(default_factory=list)
    changelog_files: list[DataFile] = field(default_factory=list)
    _batches: list[tuple[pa.RecordBatch, RowKinds]] = field(default_factory=list)
    _buffered: int = 0
    _runs: list[SpilledRun] = field(default_factory=list)

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes of the rows in memory."""
        return self._buffered

    def add(self, batch: pa.RecordBatch, kinds: RowKinds) -> None:
        """Buffer rows, and report their size to the budget."""
        self._batches.append((batch, kinds))
        size = batch.nbytes + _BATCH_BYTES + _COLUMN_BYTES * batch.num_columns
        self._buffered += size
        self.budget.grew(self, size)

    def release(self) -> None:
        """Spill the rows in memory to local disk.

        Writes files of the table instead if spilling is disabled or the disk budget is spent.
        """
        if self._options[WRITE_BUFFER_SPILLABLE] and self.budget.may_spill(self._buffered):
            self._spill()
        else:
            self.flush()

    def flush(self) -> None:
        """Write all rows so far to files. Rows of a later flush are newer."""
        if not (self._batches or self._runs):
            return
        if self._runs:
            self._write(self._from_disk())
        else:
            # An engine that makes rows may make nulls.
            whole = self.merge.engine.keeps_rows_whole
            without_nulls = null_free([batch for batch, _ in self._batches]) if whole else frozenset[str]()
            self._write(self._from_memory(), without_nulls)
        for run in self._runs:
            self._forget(run)
        self._runs.clear()

    def abort(self) -> None:
        """Discard all buffered rows. Files that are finished remain in `new_files` and `changelog_files`."""
        for run in self._runs:
            self._forget(run)
        self._runs.clear()
        self._batches.clear()
        self._let_go()

    @property
    def _options(self) -> TableOptions:
        return self.files.layout.schema.typed

    def _spill(self) -> None:
        if self._batches:
            # If only the last row of a key counts, or the first, the others need not be spilled.
            merges = not self.keeps_input and self.merge.engine.keeps_rows_whole
            parts = (part for batch in self._from_memory() for part in self._parts(batch, merged=merges))
            run = spill(self.budget.new_spill(), parts, self._options)
            self._runs.append(run)
            self.budget.spilled(run.size)

    def _parts(self, groups: KeyGroups, *, merged: bool) -> Iterator[pa.Table]:
        """Yield the rows in parts so small that one part of every run open at the same time fits into the budget."""
        rows = merge_groups(self.merge, groups).table() if merged else _ordered(groups)
        most = max(_LEAST_PART, self.budget.most // MAX_OPEN_RUNS) * len(rows) // max(rows.nbytes, 1)
        starts = np.arange(len(rows)) if merged else groups.starts
        return cut_by_keys(rows, starts, most)

    def _forget(self, run: SpilledRun) -> None:
        run.delete()
        self.budget.spilled(-run.size)

    def _from_memory(self) -> Iterator[KeyGroups]:
        """Yield the rows in memory in key order, piece by piece, and release their share of the budget."""
        rows = self._numbered()
        self._batches.clear()
        self._let_go()
        yield from _pieces(self.merge, rows)

    def _from_disk(self) -> Iterator[KeyGroups]:
        buffered = [
            one_batch(part)
            for piece in (self._from_memory() if self._batches else ())
            for part in self._parts(piece, merged=False)
        ]
        runs = [SortedRun(0, run.batches(), repeats=True) for run in self._runs]
        # The rows in memory are newer than those of all spilled runs.
        runs.append(SortedRun(0, buffered, repeats=True))
        for step in steps(self.merge, runs):
            yield group_rows(self.merge, concat_parts(self.merge, step.parts))

    def _numbered(self) -> pa.Table:
        rows = pa.Table.from_batches([batch for batch, _ in self._batches])
        if not self.merge.engine.keeps_rows_whole:
            rows = rows.combine_chunks()  # these engines process the rows column by column
        first = self.next_sequence
        # Rows that the merge drops count too: the numbers are the order of arrival.
        self.next_sequence += rows.num_rows
        kinds = np.concatenate([kinds for _, kinds in self._batches])
        return rows.add_column(0, KIND, pa.array(kinds, pa.int8())).add_column(
            0, SEQUENCE, pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
        )

    def _let_go(self) -> None:
        buffered, self._buffered = self._buffered, 0
        self.budget.shrank(self, buffered)

    def _write(self, pieces: Iterator[KeyGroups], without_nulls: frozenset[str] = frozenset()) -> None:
        data = self.files.open(without_nulls=without_nulls)
        changelog = self.files.open(changelog=True, without_nulls=without_nulls) if self.keeps_input else None
        # An error deletes both files, also the one that is complete already.
        with ExitStack() as unfinished:
            for writer in (data, changelog):
                if writer is not None:
                    unfinished.callback(writer.abort)
            for piece in pieces:
                if changelog is not None:
                    changelog.write(_ordered(piece))
                data.write(merge_groups(self.merge, piece).table())
            changelog_files = changelog.finish() if changelog is not None else []
            made = data.finish()
            unfinished.pop_all()
        self.new_files += made
        self.changelog_files += changelog_files


def _pieces(merge: MergeSpec, rows: pa.Table) -> Iterator[KeyGroups]:
    """Yield rows in order of arrival grouped by key: all at once, or for large buffers some keys at a time."""
    groups = group_rows(merge, rows, sorted_runs=False)
    most = min(_PIECE_ROWS, max(1, _PIECE_BYTES * len(rows) // max(rows.nbytes, 1)))
    if len(rows) <= 2 * most:
        yield groups
        return
    keys = np.unique(np.searchsorted(groups.starts, np.arange(0, len(rows), most)))
    bounds = np.append(groups.starts[keys[keys < len(groups.starts)]], len(rows))
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        first, last = np.searchsorted(groups.starts, [begin, end])
        starts, order = groups.starts[first:last] - begin, groups.order[begin:end]
        if merge.engine.keeps_rows_whole:
            # fetched only after the merge has decided which rows remain
            yield KeyGroups(rows, groups.kinds, order, starts)
        else:  # these engines read all columns of all rows
            sorted_rows = rows_at(rows, order)
            yield KeyGroups(sorted_rows, kinds_of(sorted_rows), np.arange(end - begin), starts)


def _ordered(groups: KeyGroups) -> pa.Table:
    """Return the rows in key order, unmerged."""
    return rows_at(groups.rows, groups.order)
