"""Aggregates whose result is one of the rows: first, last, greatest, least."""

from __future__ import annotations

import numpy as np

from penstock.table.merge.inputs import Inputs, restarted
from penstock.table.merge.key_groups import Flags, Ints, dense_ranks
from penstock.table.values.ordering import sort_keys


def last_value(inputs: Inputs) -> Ints:
    """The last row that came in time, null included; null after a row was taken back."""
    work, late = inputs.work, inputs.late_rows()
    place = work.last(inputs.adds & ~late)
    return np.where(place > work.last(inputs.retracts), place, -1)


def last_non_null_value(inputs: Inputs) -> Ints:
    work, late, valid = inputs.work, inputs.late_rows(), inputs.valid()
    taken_back = work.last(inputs.retracts & valid)
    in_time = work.last(inputs.adds & valid & ~late)
    if not late.any():
        return np.where(in_time > taken_back, in_time, -1)
    # Nothing came in time since: the first late value stands in for it.
    after = np.arange(work.size) > work.per_row(taken_back)
    return np.where(in_time > taken_back, in_time, work.first(inputs.adds & valid & late & after))


def first_value(inputs: Inputs) -> Ints:
    """The first row, unless a late one came, which counts as earlier than all before it."""
    work, late = inputs.work, inputs.late_rows()
    first = restarted(work.first(inputs.adds & ~late), np.ones(work.size, np.bool_), inputs)
    last_late = work.last(inputs.adds & late)
    return np.where(last_late >= 0, last_late, first)


def first_non_null_value(inputs: Inputs) -> Ints:
    work, late, valid = inputs.work, inputs.late_rows(), inputs.valid()
    places = restarted(work.first(inputs.adds & valid), valid, inputs)
    late_adds = inputs.adds & late
    # Few keys have late rows; what Java makes of those depends on whether a value was ever set in time.
    for key in np.flatnonzero(inputs.any_of(late_adds)):
        rows = range(int(work.starts[key]), int(work.ends[key]))
        settled = inputs.forgotten is not None and any(inputs.forgotten[r] and valid[r] for r in rows)
        places[key] = _first_non_null_with_late([r for r in rows if inputs.adds[r]], valid, late, settled)
    return places


def _first_non_null_with_late(rows: list[int], valid: Flags, late: Flags, settled: bool) -> int:
    place = -1
    for row in rows:
        if not late[row]:
            if not settled and valid[row]:
                settled, place = True, row
        elif not settled and place >= 0:
            settled = True
        else:
            place = row if valid[row] else -1
    return place


def greatest(inputs: Inputs) -> Ints:
    return _best(inputs, _ranks(inputs))


def least(inputs: Inputs) -> Ints:
    return _best(inputs, ~_ranks(inputs))


def _best(inputs: Inputs, ranks: Ints) -> Ints:
    work, counted = inputs.work, inputs.valid_adds()
    best = np.maximum.reduceat(np.where(counted, ranks, np.iinfo(np.int64).min), work.starts)
    return work.first(counted & (ranks == work.per_row(best)))


def _ranks(inputs: Inputs) -> Ints:
    keys = sort_keys([inputs.values()], [inputs.type], signed_zero=True)
    return np.asarray(keys, np.int64) if keys.dtype == np.int64 else dense_ranks(keys)
