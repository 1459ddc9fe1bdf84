"""Execution of one compaction: it reads files of a bucket and writes files, changelog and deletion vectors.

Inline, background and dedicated compaction all end here. Nothing is deleted: the committer of the result decides what
happens to the replaced files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.compaction.compaction_result import CompactionResult
from penstock.table.compaction.comparison import ComparedRows, RowComparison
from penstock.table.compaction.lookup import Hits, Lookup, RowReader, Vectors
from penstock.table.compaction.plan import CompactionSpec, Unit, drops_deletes, plan_units
from penstock.table.compaction.policy import Pick
from penstock.table.merge.bounded_merge import SortedRun, Step, batch_rows, steps
from penstock.table.merge.key_groups import visible_rows
from penstock.table.merge.merge_rows import merge_rows
from penstock.table.merge.sorted_runs import FileRun, Levels
from penstock.table.meta.data_file import DataFile
from penstock.table.values.buffers import bounded

_PIECE_BYTES, _LEAST_PIECE_ROWS, _MOST_PIECE_BYTES = 3 << 20, 256, 32 << 20
# A step has a fixed cost for each column. With fewer bytes a column, tables of thousands of columns cost twice as much.
_COLUMN_BYTES = 8 << 10


class RowWriter(Protocol):
    """A writer of sorted rows into files of a target size, such as RollingWriter."""

    def write(self, rows: pa.RecordBatch | pa.Table) -> None: ...

    def finish(self) -> list[DataFile]: ...

    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CompactionInput:
    """The files of a bucket, with the readers and writers that a compaction uses.

    `reader` returns _SEQUENCE_NUMBER, _VALUE_KIND and all columns. `open_data` and `open_changelog` return writers for
    a level. `lookup` is required if the table looks up old rows; None means that the levels above are known to be
    empty.
    """

    levels: Levels
    reader: RowReader
    open_data: Callable[[int], RowWriter]
    open_changelog: Callable[[int], RowWriter]
    vectors: Vectors = field(default_factory=dict)
    lookup: Lookup | None = None
    spill_folder: str | None = None


def compact(spec: CompactionSpec, bucket: CompactionInput, pick: Pick) -> CompactionResult:
    """Compact the picked files. On any error the files that were written are deleted again.

    Holds a batch of every run of one section, and the row groups being written.
    """
    if spec.looks_up and bucket.lookup is None and any(bucket.levels.upper[pick.level :]):
        raise ConfigError(
            "the compaction of this table needs a lookup of previous rows, and none was passed", level=pick.level
        )
    return _Compaction(spec, bucket, pick).run()


class _Compaction:
    """One compaction while it runs: its open writers and the files it has read and written."""

    def __init__(self, spec: CompactionSpec, bucket: CompactionInput, pick: Pick) -> None:
        self._spec, self._bucket, self._pick = spec, bucket, pick
        self._drops = drops_deletes(spec, bucket.levels, pick)
        self._comparison = RowComparison(spec, bucket.levels, pick.level, bucket.lookup, bucket.vectors)
        self._writers: list[RowWriter] = []
        self._changelog: RowWriter | None = None
        self._before: list[DataFile] = []
        self._after: list[DataFile] = []
        self._rewritten: set[str] = set()
        self._marked: dict[str, list[np.ndarray[Any, Any]]] = {}

    def run(self) -> CompactionResult:
        """Execute all units. On any error the files that were written are deleted again."""
        done = False
        try:
            for unit in plan_units(self._spec, self._bucket.levels, self._pick):
                self._execute(unit)
            changelog = self._changelog.finish() if self._changelog is not None else []
            done = True
        finally:
            # `finally`, since an interrupted task must not leave its files either. Finished writers delete their
            # files too: no commit refers to them yet.
            if not done:
                for writer in self._writers:
                    writer.abort()
        return CompactionResult(tuple(self._before), tuple(self._after), tuple(changelog), self._vectors())

    def _execute(self, unit: Unit) -> None:
        self._before += unit.files
        if unit.rewrite:
            self._rewritten.update(file.name for file in unit.files)
            writer = self._opened(self._bucket.open_data(self._pick.level))
            for rows in self._rows(unit):
                writer.write(rows)
            self._after += writer.finish()
            return
        # The file only changes its level: its rows are read for the changelog and the deletion vectors alone.
        if unit.compare and self._must_compare():
            for _ in self._rows(unit):
                pass
        self._after += [replace(file, level=self._pick.level) for file in unit.files]

    def _must_compare(self) -> bool:
        """Return whether a comparison matters although the rows themselves are not written."""
        return self._spec.changelog.producer.by_compaction or self._spec.vectors

    def _rows(self, unit: Unit) -> Iterator[pa.Table]:
        """Yield the merged rows of a unit, and record the changes and the replaced rows that comparisons find."""
        spec, spill = self._spec.merge, self._bucket.spill_folder
        for section in unit.sections:
            rows = batch_rows(len(section.runs))
            runs = [SortedRun(run.level, self._read(run, rows)) for run in section.runs]
            for step in steps(spec, runs, spill_folder=spill):
                yield self._compared(step) if unit.compare else self._merged(step)
                del step  # frees its batches before the next ones are read

    def _compared(self, step: Step) -> pa.Table:
        compared = self._comparison.step(step)
        self._note(compared)
        return visible_rows(compared.rows) if self._drops else compared.rows

    def _merged(self, step: Step) -> pa.Table:
        return merge_rows(
            self._spec.merge, step.parts, drop_deletes=self._drops, levels=step.levels, repeats=step.repeats
        )

    def _read(self, run: FileRun, rows: int) -> Iterator[pa.RecordBatch]:
        expiry = self._spec.expiry
        for file in run.data_files:
            batches = self._bucket.reader.read(file, vector=self._bucket.vectors.get(file.name), batch_rows=rows)
            for batch in batches if expiry is None else filter(len, map(expiry.left, batches)):
                yield from _pieces(batch)

    def _note(self, compared: ComparedRows) -> None:
        if compared.changes is not None and len(compared.changes):
            if self._changelog is None:
                self._changelog = self._opened(self._bucket.open_changelog(self._pick.level))
            self._changelog.write(compared.changes)
        if self._spec.vectors and compared.hits is not None:
            self._mark(compared.hits)

    def _mark(self, hits: Hits) -> None:
        for number, name in enumerate(hits.files):
            self._marked.setdefault(name, []).append(hits.positions[hits.file_of == number])

    def _opened(self, writer: RowWriter) -> RowWriter:
        self._writers.append(writer)
        return writer

    def _vectors(self) -> Mapping[str, np.ndarray[Any, Any]] | None:
        """Return the bucket's deletion vectors after the compaction, or None if they are unchanged.

        Vectors of rewritten files are dropped, and newly replaced rows are added to the vectors of their files.
        """
        old = self._bucket.vectors
        if not self._marked and not self._rewritten & set(old):
            return None
        vectors = {name: vector for name, vector in old.items() if name not in self._rewritten}
        for name, parts in self._marked.items():
            # Steps find the rows of a file in parts; the empty slice has the type that the concatenation must keep.
            vectors[name] = np.unique(np.concatenate([*parts, vectors.get(name, parts[0][:0])]))
        return vectors


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield batches of long rows in smaller pieces: a step holds several copies of the rows that it merges."""
    size = max(_PIECE_BYTES, batch.num_columns * _COLUMN_BYTES)
    most = max(_LEAST_PIECE_ROWS, batch.num_rows * size // max(batch.nbytes, 1))
    for begin in range(0, batch.num_rows, most):
        yield from bounded(batch.slice(begin, most), _MOST_PIECE_BYTES)
