"""Aggregate functions whose result is the value of one row: first, last, greatest, least."""

from __future__ import annotations

import numpy as np

from penstock.table.merge.aggregates.function import Inputs, restarted
from penstock.table.merge.engine_rows import dense_ranks
from penstock.table.values.buffers import Flags, Ints
from penstock.table.values.sort_keys import sort_keys


def last_value(inputs: Inputs) -> Ints:
    """Return the last row of each key that is not late, even if its value is null; null if a retraction follows."""
    work, late = inputs.work, inputs.late_rows()
    place = work.last(inputs.adds & ~late)
    return np.where(place > work.last(inputs.retracts), place, -1)


def last_non_null_value(inputs: Inputs) -> Ints:
    """Return the last row of each key with a value.

    A late row counts only if no row in order has a value since the last retraction.
    """
    work, late, valid = inputs.work, inputs.late_rows(), inputs.valid()
    retracted = work.last(inputs.retracts & valid)
    in_time = work.last(inputs.adds & valid & ~late)
    if not late.any():
        return np.where(in_time > retracted, in_time, -1)
    # No row in order has a value since then: use the first late value.
    after = np.arange(work.size) > work.per_row(retracted)
    return np.where(in_time > retracted, in_time, work.first(inputs.adds & valid & late & after))


def first_value(inputs: Inputs) -> Ints:
    """Return the first row of each key, or the last late row: a late row precedes all rows before it.

    A late row that no row in order precedes only ends the search for the first row, as in Java.
    """
    work, late = inputs.work, inputs.late_rows()
    opening, last_late = work.first(inputs.adds), work.last(inputs.adds & late)
    first = restarted(np.where(late[opening], -1, opening), np.ones(work.size, np.bool_), inputs)
    replaced = last_late > opening
    if inputs.forgotten is not None:
        replaced |= inputs.any_of(inputs.forgotten) & (last_late >= 0)
    return np.where(replaced, last_late, first)


def first_non_null_value(inputs: Inputs) -> Ints:
    """Return the first row of each key that has a value."""
    work, late, valid = inputs.work, inputs.late_rows(), inputs.valid()
    places = restarted(work.first(inputs.adds & valid), valid, inputs)
    late_adds = inputs.adds & late
    # Few keys have late rows. Java's result for them depends on whether a value was ever set by a row in order.
    for key in np.flatnonzero(inputs.any_of(late_adds)):
        rows = range(int(work.starts[key]), int(work.ends[key]))
        settled = inputs.forgotten is not None and any(inputs.forgotten[r] and valid[r] for r in rows)
        start = -1 if inputs.restart is None else int(inputs.restart[key])
        places[key] = _first_non_null_with_late([r for r in rows if inputs.adds[r]], valid, late, settled, start)
    return places


def _first_non_null_with_late(rows: list[int], valid: Flags, late: Flags, settled: bool, place: int) -> int:
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
    """Return the row of each key with the greatest value."""
    return _best(inputs, _ranks(inputs))


def least(inputs: Inputs) -> Ints:
    """Return the row of each key with the least value."""
    # The complement reverses the order of all integers. Negation would overflow for the least one.
    return _best(inputs, ~_ranks(inputs))


def _best(inputs: Inputs, ranks: Ints) -> Ints:
    work, counted = inputs.work, inputs.valid_adds()
    # A rank may equal this filler, so `counted` is applied again to find the row.
    best = np.maximum.reduceat(np.where(counted, ranks, np.iinfo(np.int64).min), work.starts)
    return work.first(counted & (ranks == work.per_row(best)))


def _ranks(inputs: Inputs) -> Ints:
    keys = sort_keys([inputs.values()], [inputs.type], signed_zero=True)
    return np.asarray(keys, np.int64) if keys.dtype == np.int64 else dense_ranks(keys)
