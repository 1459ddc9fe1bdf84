"""A deduplicating read without order: each run returns its rows, except the rows that a newer run replaces.

The columns that decide which row wins are read first, and result in a mask per run. Then rows are filtered in place,
run by run as in a plain read. That is cheaper than fetching merged rows in key order, and than keeping a batch of all
columns of every run in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.row_kinds import is_retract
from penstock.table.merge.bounded_merge import MAX_OPEN_RUNS, SortedRun, Step, steps
from penstock.table.merge.key_groups import KIND, SEQUENCE, concat_parts, kinds_of, newest_rows
from penstock.table.merge.row_bits import RowBits
from penstock.table.merge.spec import MergeSpec
from penstock.table.values.buffers import Flags, Ints

# Integer keys are addressed directly while the addresses are few for each row: an eighth of the time of a sort.
_DENSE = 16


def may_mask(spec: MergeSpec, runs: int) -> bool:
    """Return whether a read returns the newest row of each key unchanged, from few enough runs.

    Beyond MAX_OPEN_RUNS, `steps` combines runs, and a mask could not be assigned to a run.
    """
    newest_wins = spec.engine.newest_wins and not spec.lookup and not spec.ignore_delete
    return newest_wins and runs <= MAX_OPEN_RUNS


def deciding_columns(spec: MergeSpec) -> frozenset[str]:
    """Return the columns that decide which row wins."""
    return frozenset({SEQUENCE, KIND, *spec.keys, *spec.sequence_fields})


def shown_rows(spec: MergeSpec, runs: Sequence[SortedRun]) -> list[RowBits]:
    """Return which rows of each run a read returns, older runs first; the runs need only their deciding columns.

    Holds a bit per row, and a batch of each run.
    """
    shown = [RowBits() for _ in runs]
    for step in steps(spec, runs):
        for place, mask in zip(step.places, _masks(spec, step), strict=True):
            shown[place].add(mask)
    return shown


def _masks(spec: MergeSpec, step: Step) -> Iterator[Flags]:
    for part, mask in zip(step.parts, _newest(spec, step), strict=True):
        # A key whose newest row is a -U or -D row shows nothing: neither that row nor the older ones it replaces.
        yield mask & ~is_retract(kinds_of(part)) if KIND in part.column_names else mask


def _newest(spec: MergeSpec, step: Step) -> Sequence[Flags]:
    """Return which rows of each part are the newest of their keys."""
    integers = [keys for keys in step.integers if keys is not None]
    by_place = not step.repeats and not spec.sequence_fields and SEQUENCE not in step.parts[0].column_names
    if by_place and len(integers) == len(step.parts) and (found := newest_of_integers(integers)) is not None:
        return found
    ends = np.cumsum([len(part) for part in step.parts])
    return np.split(newest_rows(spec, concat_parts(spec, step.parts)), ends[:-1])


def newest_of_integers(runs: Sequence[Ints]) -> list[Flags] | None:
    """Return which keys of each run are in no later run, or None if the keys are far apart.

    A run has its keys in order, each once. Without a sort: each run in turn writes its number at the places of its
    keys, where the number of the last one stays.
    """
    least = min(int(keys[0]) for keys in runs)
    span = max(int(keys[-1]) for keys in runs) - least + 1
    if span > _DENSE * sum(map(len, runs)):
        return None
    places = [keys - least for keys in runs]
    owner = np.empty(span, np.uint8)
    for number, own in enumerate(places):
        owner[own] = number
    return [owner[own] == number for number, own in enumerate(places)]
