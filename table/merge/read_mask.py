"""A deduplicating read without order: each run returns its rows, except the rows that a newer run replaces.

The columns that decide which row wins are read first, and result in a mask per run. Then rows are filtered in place,
run by run as in a plain read. That is cheaper than fetching merged rows in key order, and than keeping a batch of all
columns of every run in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.row_kinds import is_retract
from penstock.table.merge.bounded_merge import MAX_OPEN_RUNS, SortedRun, Step, steps
from penstock.table.merge.key_groups import KIND, SEQUENCE, concat_parts, kinds_of, newest_rows
from penstock.table.merge.spec import MergeSpec
from penstock.table.values.buffers import Flags


def may_mask(spec: MergeSpec, runs: int) -> bool:
    """Return whether a read returns the newest row of each key unchanged, from few enough runs.

    Beyond MAX_OPEN_RUNS, `steps` combines runs, and a mask could not be assigned to a run.
    """
    newest_wins = spec.engine.newest_wins and not spec.lookup and not spec.ignore_delete
    return newest_wins and runs <= MAX_OPEN_RUNS


def deciding_columns(spec: MergeSpec) -> frozenset[str]:
    """Return the columns that decide which row wins."""
    return frozenset({SEQUENCE, KIND, *spec.keys, *spec.sequence_fields})


def shown_rows(spec: MergeSpec, runs: Sequence[SortedRun]) -> list[pa.BooleanArray]:
    """Return which rows of each run a read returns, older runs first; the runs need only their deciding columns.

    Holds a bit per row, and a batch of each run.
    """
    pieces: list[list[pa.BooleanArray]] = [[] for _ in runs]
    for step in steps(spec, runs):
        for place, mask in zip(step.places, _masks(spec, step), strict=True):
            pieces[place].append(pa.array(mask))
    return [pa.concat_arrays(found) if found else pa.array([], pa.bool_()) for found in pieces]


def _masks(spec: MergeSpec, step: Step) -> Iterator[Flags]:
    rows = concat_parts(spec, step.parts)
    mask = newest_rows(spec, rows)
    # A key whose newest row is a -U or -D row shows nothing: neither that row nor the older ones it replaces.
    if KIND in rows.column_names:
        mask &= ~is_retract(kinds_of(rows))
    start = 0
    for part in step.parts:
        yield mask[start : start + len(part)]
        start += len(part)
