"""Merging of sorted runs of any size in bounded memory.

Each step takes from every run the rows up to the smallest of the last keys of the buffered batches; all rows of those
keys are buffered. A key is in only one batch of a run, so no key ever spans two steps, and there is at most one step
per batch.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.merge.key_groups import concat_parts, group_rows
from penstock.table.merge.merge_rows import merge_rows
from penstock.table.merge.sorted_runs import KeyRows
from penstock.table.merge.spec import MergeSpec
from penstock.table.values.buffers import Ints, one_batch, rows_at
from penstock.table.values.sort_keys import sort_keys
from penstock.table.values.types import AtomicType

# An open file costs about 10 MB of decoder state. With more runs than this, level 0 is merged in two rounds.
MAX_OPEN_RUNS = 50
# Measured with 5 to 50 runs: 16,384 rows are the fastest, larger batches lose more to page faults than they save.
# Beyond 30 runs, 4,096 rows halve the memory and cost a third of the speed.
_BATCH_ROWS, _MANY_RUNS, _SMALL_BATCH_ROWS = 16_384, 30, 4_096
_TEXTS = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Batches in key order that never split a key between them; opened when the first batch is read."""

    level: int
    batches: Iterable[pa.RecordBatch]
    repeats: bool = False  # a key may have several rows, older first


@dataclass(frozen=True, slots=True)
class Step:
    """Slices of the runs, older runs first, that contain all rows of their keys.

    `places` are the numbers of the runs. `integers` are the keys of each part, if integers represent them.
    """

    parts: tuple[pa.Table, ...]
    levels: tuple[int, ...]
    places: tuple[int, ...]
    integers: tuple[Ints | None, ...]
    repeats: bool = False


def batch_rows(runs: int) -> int:
    """Return the number of rows of each batch for a number of runs: memory grows with both."""
    return _BATCH_ROWS if runs <= _MANY_RUNS else _SMALL_BATCH_ROWS


def merge_runs(
    spec: MergeSpec,
    runs: Sequence[SortedRun],
    *,
    drop_deletes: bool,
    ordered: bool = True,
    max_open: int = MAX_OPEN_RUNS,
    spill_folder: str | None = None,
) -> Iterator[pa.Table]:
    """Yield the merged rows of runs, older runs first.

    Tables are in key order, rows in a table as `merge_rows` orders them.

    Holds about one batch per run, and files in `spill_folder` while there are more than `max_open` runs.
    """
    for step in steps(spec, runs, max_open=max_open, spill_folder=spill_folder):
        yield merge_rows(
            spec,
            step.parts,
            drop_deletes=drop_deletes,
            levels=step.levels,
            ordered=ordered,
            repeats=step.repeats,
        )
        del step  # frees its batches before the next ones are read


def steps(
    spec: MergeSpec, runs: Sequence[SortedRun], *, max_open: int = MAX_OPEN_RUNS, spill_folder: str | None = None
) -> Iterator[Step]:
    """Yield the steps of a merge. More than `max_open` runs are first reduced by combining level-0 runs in files."""
    if len(runs) <= max_open:
        yield from _steps(spec, runs)
        return
    # Upper levels are not spilled: they are few, and have most of the rows, all of which would be written to disk.
    upper = [run for run in runs if run.level > 0]
    level0 = [run for run in runs if run.level == 0]
    # At least two: a group of one run would be written again without reducing the number of runs.
    width = max(max_open - len(upper), 2)
    with tempfile.TemporaryDirectory(dir=spill_folder, prefix="merge-") as folder:
        # Neighbours are combined, so the spilled runs are in order of age like the runs they replace.
        groups = [level0[i : i + width] for i in range(0, len(level0), width)]
        spilled = [_spill(spec, group, f"{folder}/{number}.arrow") for number, group in enumerate(groups)]
        # The limit rises if the upper levels alone reach it; otherwise this would never end.
        yield from steps(spec, [*upper, *spilled], max_open=max(max_open, len(upper) + 2), spill_folder=folder)


def _steps(spec: MergeSpec, runs: Sequence[SortedRun]) -> Iterator[Step]:
    cursors = [_Cursor(spec, place, run) for place, run in enumerate(runs)]
    repeats = any(run.repeats for run in runs)
    while live := [cursor for cursor in cursors if cursor.fill()]:
        bound = min(cursor.last() for cursor in live)
        taken = [(cursor, *part) for cursor in live if (part := cursor.take(bound)) is not None]
        yield Step(
            tuple(part for _, part, _ in taken),
            tuple(cursor.level for cursor, _, _ in taken),
            tuple(cursor.place for cursor, _, _ in taken),
            tuple(integers for _, _, integers in taken),
            repeats,
        )
        del taken  # frees the batches before more are read


class _Cursor:
    """A run, and the rows of its latest batch that were not taken yet."""

    def __init__(self, spec: MergeSpec, place: int, run: SortedRun) -> None:
        self.place, self.level = place, run.level
        self._spec = spec
        self._batches = iter(run.batches)
        self._batch: pa.RecordBatch | None = None
        self._keys: Sequence[Any] = ()
        self._start = 0

    def fill(self) -> bool:
        """Read the next batch if all rows were taken; return False at the end of the run."""
        while self._start >= len(self._keys):
            self._batch, self._keys, self._start = None, (), 0
            self._batch = next(self._batches, None)
            if self._batch is None:
                return False
            self._keys = _comparable(self._spec, self._batch)
        return True

    def last(self) -> Any:
        """Return the last key of the batch."""
        return self._keys[len(self._keys) - 1]

    def take(self, bound: Any) -> tuple[pa.Table, Ints | None] | None:
        """Return the rows up to and including the bound with their keys if these are integers; None without rows."""
        end = bisect_right(self._keys, bound, lo=self._start)
        if self._batch is None or end == self._start:
            return None
        part = pa.Table.from_batches([self._batch.slice(self._start, end - self._start)])
        keys: Any = self._keys
        integers = keys[self._start : end] if isinstance(keys, np.ndarray) and keys.dtype == np.int64 else None
        self._start = end
        return part, integers


def _comparable(spec: MergeSpec, batch: pa.RecordBatch) -> Sequence[Any]:
    """Return keys that can be compared across batches.

    Sort keys of texts have the width of the longest text of their batch, so texts are compared as Python values.
    """
    columns, types = [batch.column(name) for name in spec.keys], spec.key_types()
    if any(isinstance(type_, AtomicType) and type_.root in _TEXTS for type_ in types):
        return KeyRows(columns, types)
    return sort_keys(columns, types)  # type: ignore[return-value]


def _spill(spec: MergeSpec, runs: Sequence[SortedRun], path: str) -> SortedRun:
    """Write several runs as one, unmerged: the rows of a key are adjacent, in one batch, older first."""
    writer = None
    for step in _steps(spec, runs):
        rows = concat_parts(spec, step.parts)
        # By key and arrival only: sequence fields decide later, when all rows of a key are together.
        groups = group_rows(replace(spec, sequence_fields=()), rows)
        ordered = rows_at(rows, groups.order)
        writer = writer or pa.ipc.new_file(path, ordered.schema)
        # A step may contain a batch of every run. Written as one batch, it would be in memory beside the batches of
        # other spilled runs.
        for part in cut_by_keys(ordered, groups.starts, max(len(part) for part in step.parts)):
            writer.write_batch(one_batch(part))  # two batches might split a key
    if writer is not None:
        writer.close()
    return SortedRun(0, _mapped(path) if writer is not None else (), repeats=True)


def cut_by_keys(rows: pa.Table, starts: Ints, most: int) -> Iterator[pa.Table]:
    """Yield rows in key order in parts of about `most` rows that never split a key. Keys begin at `starts`."""
    # For every multiple of `most`, the first key that begins there or later. A key with more rows than that is
    # found several times and counts once.
    begins = np.unique(np.searchsorted(starts, np.arange(0, len(rows), max(most, 1))))
    bounds = np.append(starts[begins[begins < len(starts)]], len(rows)).tolist()
    for begin, end in pairwise(bounds):
        yield rows.slice(begin, end - begin)


def _mapped(path: str) -> Iterator[pa.RecordBatch]:
    # Mapped, so that a batch is in memory only while it is merged; the system can drop its pages at any time.
    with pa.memory_map(path) as source:
        file = pa.ipc.open_file(source)
        for number in range(file.num_record_batches):
            yield file.get_batch(number)
