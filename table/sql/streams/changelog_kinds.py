"""Row kinds of a query's result on a changelog: what an update means when only one of its two rows remains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import DELETE, INSERT, KIND_TEXTS, UPDATE_AFTER, UPDATE_BEFORE, RowKinds

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def kind_numbers(texts: pa.Array) -> RowKinds:
    """Return the numbers of row kinds that are given as texts."""
    return np.asarray(pc.index_in(texts, pa.array(KIND_TEXTS)), np.int8)


class ResultKinds:
    """The kinds of the rows of a query on one batch of changes."""

    def __init__(self, changes: pa.RecordBatch, kinds: RowKinds, keys: Sequence[str]) -> None:
        """Find the updates: an old row that is followed by the new row of the same key."""
        self._kinds = kinds
        self._old = np.zeros(len(kinds), np.bool_)
        if len(kinds) > 1:
            pairs = (kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER)
            self._old[:-1] = pairs & same_as_next(changes, keys)

    def of(self, rows: Numbers) -> RowKinds:
        """Return the kinds of result rows that come from these changed rows.

        An old row without its new row is a delete, a new row without its old row an insert: the condition of the query
        applies to one of them only.
        """
        selected = np.zeros(len(self._kinds) + 1, np.bool_)
        selected[rows] = True
        kinds = self._kinds[rows]
        new = np.zeros(len(self._kinds), np.bool_)
        new[1:] = self._old[:-1]
        kinds[(kinds == UPDATE_BEFORE) & ~(self._old[rows] & selected[rows + 1])] = DELETE
        kinds[(kinds == UPDATE_AFTER) & new[rows] & ~selected[rows - 1]] = INSERT
        return kinds


def moved_kinds(result: pa.RecordBatch, rows: Numbers, kinds: RowKinds, keys: Sequence[str]) -> RowKinds:
    """Return the kinds for a table with these keys: an update that changes the key deletes one row and inserts one."""
    if len(kinds) < 2:
        return kinds
    pairs = (kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER) & (rows[1:] == rows[:-1] + 1)
    moved = np.flatnonzero(pairs & ~same_as_next(result, keys))
    out = kinds.copy()
    out[moved], out[moved + 1] = DELETE, INSERT
    return out


def same_as_next(batch: pa.RecordBatch, names: Sequence[str]) -> Flags:
    """Return for each row but the last whether the columns have the same values in the next row."""
    same = np.ones(batch.num_rows - 1, np.bool_)
    for name in names:
        column = batch.column(name)
        equal = pc.fill_null(pc.equal(column.slice(0, len(column) - 1), column.slice(1)), fill_value=False)
        same &= np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)
    return same
