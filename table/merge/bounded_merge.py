"""Merging runs of any size in bounded memory (lsm-vectorised 1.4).

Each step takes from every run what lies at or below the least of the buffers' last keys: those keys are complete. A key
lies in one batch of a run only, so no key ever spans two steps, and there is at most one step a batch.
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

from penstock.table.merge.key_groups import Ints, concat_parts, group_rows
from penstock.table.merge.key_values import KeyRows
from penstock.table.merge.merge_rows import merge_rows
from penstock.table.merge.spec import MergeSpec
from penstock.table.values.ordering import sort_keys
from penstock.table.values.types import AtomicType

# An open file costs about 10 MB of decoder state: beyond these many runs, level 0 is merged in two rounds.
MAX_OPEN_RUNS = 50
_BATCH_ROWS, _MANY_RUNS, _SMALL_BATCH_ROWS = 16_384, 30, 4_096
_TEXTS = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Batches in key order, no key in two of them; opened when first asked for a batch."""

    level: int
    batches: Iterable[pa.RecordBatch]
    repeats: bool = False  # a key may have several rows, older first


@dataclass(frozen=True, slots=True)
class Step:
    """Slices of the runs, older first, that hold all rows of their keys. `places` say of which runs they are."""

    parts: tuple[pa.Table, ...]
    levels: tuple[int, ...]
    places: tuple[int, ...]
    repeats: bool = False


def batch_rows(runs: int) -> int:
    """How many rows a batch of each of so many runs should have: memory grows with both."""
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
    """The merged rows of runs, older first, in key order across tables; within one as `merge_rows` has it.

    Holds about one batch a run, and files in `spill_folder` while there are more than `max_open` runs.
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
        del step  # else its batches would be there beside the next ones


def steps(
    spec: MergeSpec, runs: Sequence[SortedRun], *, max_open: int = MAX_OPEN_RUNS, spill_folder: str | None = None
) -> Iterator[Step]:
    if len(runs) <= max_open:
        yield from _steps(spec, runs)
        return
    upper = [run for run in runs if run.level > 0]
    level0 = [run for run in runs if run.level == 0]
    width = max(max_open - len(upper), 2)
    with tempfile.TemporaryDirectory(dir=spill_folder, prefix="merge-") as folder:
        groups = [level0[i : i + width] for i in range(0, len(level0), width)]
        spilled = [_spill(spec, group, f"{folder}/{number}.arrow") for number, group in enumerate(groups)]
        yield from steps(spec, [*upper, *spilled], max_open=max(max_open, len(upper) + 2), spill_folder=folder)


def _steps(spec: MergeSpec, runs: Sequence[SortedRun]) -> Iterator[Step]:
    cursors = [_Cursor(spec, place, run) for place, run in enumerate(runs)]
    repeats = any(run.repeats for run in runs)
    while live := [cursor for cursor in cursors if cursor.fill()]:
        bound = min(cursor.last() for cursor in live)
        taken = [(cursor, part) for cursor in live if (part := cursor.take(bound)) is not None]
        yield Step(
            tuple(part for _, part in taken),
            tuple(cursor.level for cursor, _ in taken),
            tuple(cursor.place for cursor, _ in taken),
            repeats,
        )
        del taken  # before more is read


class _Cursor:
    """A run, and what of its newest batch has not been taken yet."""

    def __init__(self, spec: MergeSpec, place: int, run: SortedRun) -> None:
        self.place, self.level = place, run.level
        self._spec = spec
        self._batches = iter(run.batches)
        self._batch: pa.RecordBatch | None = None
        self._keys: Sequence[Any] = ()
        self._start = 0

    def fill(self) -> bool:
        """Read on when all is taken; False at the end of the run."""
        while self._start >= len(self._keys):
            self._batch, self._keys, self._start = None, (), 0
            self._batch = next(self._batches, None)
            if self._batch is None:
                return False
            self._keys = _comparable(self._spec, self._batch)
        return True

    def last(self) -> Any:
        return self._keys[len(self._keys) - 1]

    def take(self, bound: Any) -> pa.Table | None:
        """The rows up to the bound and with it; None when there are none."""
        end = bisect_right(self._keys, bound, lo=self._start)
        if self._batch is None or end == self._start:
            return None
        part = pa.Table.from_batches([self._batch.slice(self._start, end - self._start)])
        self._start = end
        return part


def _comparable(spec: MergeSpec, batch: pa.RecordBatch) -> Sequence[Any]:
    """Keys that compare across batches. Texts take the width of their longest, so they are compared one by one."""
    columns, types = [batch.column(name) for name in spec.keys], spec.key_types()
    if any(isinstance(type_, AtomicType) and type_.root in _TEXTS for type_ in types):
        return KeyRows(columns, types)
    return sort_keys(columns, types)  # type: ignore[return-value]


def _spill(spec: MergeSpec, runs: Sequence[SortedRun], path: str) -> SortedRun:
    """Several runs as one, unmerged: the rows of a key side by side and in one batch, older first."""
    writer = None
    for step in _steps(spec, runs):
        rows = concat_parts(spec, step.parts)
        groups = group_rows(replace(spec, sequence_fields=()), rows)
        ordered = rows.take(groups.order).combine_chunks()
        writer = writer or pa.ipc.new_file(path, ordered.schema)
        # A step may hold a batch of every run: as one batch it would be held beside those of other spilled runs.
        for part in cut_by_keys(ordered, groups.starts, max(len(part) for part in step.parts)):
            for batch in part.to_batches():
                writer.write_batch(batch)
    if writer is not None:
        writer.close()
    return SortedRun(0, _mapped(path) if writer is not None else (), repeats=True)


def cut_by_keys(rows: pa.Table, starts: Ints, most: int) -> Iterator[pa.Table]:
    """Rows in key order in parts of about so many that part no key; `starts` says where each key begins."""
    begins = np.unique(np.searchsorted(starts, np.arange(0, len(rows), max(most, 1))))
    bounds = np.append(starts[begins[begins < len(starts)]], len(rows)).tolist()
    for begin, end in pairwise(bounds):
        yield rows.slice(begin, end - begin)


def _mapped(path: str) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as source:
        file = pa.ipc.open_file(source)
        for number in range(file.num_record_batches):
            yield file.get_batch(number)
