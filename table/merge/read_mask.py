"""A deduplicating read that needs no order: each run keeps its own rows, less those that a newer run replaces.

The columns that decide are read first, and give a mask for each run; then rows are filtered where they lie, run by run
as a plain read would go through them. That is cheaper than fetching merged rows in key order (lsm-vectorised 9), and
than holding a batch of all columns of every run at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.table.merge.bounded_merge import MAX_OPEN_RUNS, SortedRun, Step, steps
from penstock.table.merge.key_groups import Flags, concat_parts, kinds_of, newest_rows
from penstock.table.merge.spec import KIND, SEQUENCE, Engine, MergeSpec


def may_mask(spec: MergeSpec, runs: int) -> bool:
    """Whether the newest row of a key is what a read shows of it, untouched; more runs would lose their places."""
    newest_wins = spec.engine is Engine.DEDUPLICATE and not spec.lookup and not spec.ignore_delete
    return newest_wins and runs <= MAX_OPEN_RUNS


def deciding_columns(spec: MergeSpec) -> frozenset[str]:
    """The columns that say which row wins."""
    return frozenset({SEQUENCE, KIND, *spec.keys, *spec.sequence_fields})


def shown_rows(spec: MergeSpec, runs: Sequence[SortedRun]) -> list[pa.BooleanArray]:
    """Which rows of each run, older runs first, a read shows; the runs need their deciding columns only.

    Holds a bit for every row, and a batch of each run.
    """
    pieces: list[list[pa.BooleanArray]] = [[] for _ in runs]
    for step in steps(spec, runs):
        for place, mask in zip(step.places, _masks(spec, step), strict=True):
            pieces[place].append(pa.array(mask))
    return [pa.concat_arrays(found) if found else pa.array([], pa.bool_()) for found in pieces]


def _masks(spec: MergeSpec, step: Step) -> Iterator[Flags]:
    rows = concat_parts(spec, step.parts)
    mask = newest_rows(spec, rows)
    if KIND in rows.column_names:
        mask &= (kinds_of(rows) & 1) == 0
    start = 0
    for part in step.parts:
        yield mask[start : start + len(part)]
        start += len(part)
