"""Changes of a table in a query of Spark, which keeps a number of each row: its kind, and which update it is part of.

The number is four times a count plus the kind. The two rows of an update have the same count. What Spark leaves out of
a query, such as the old row of an update, is known by that afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds
from penstock.table.sql.streams.changelog_kinds import Flags, Numbers, same_as_next

CHANGE = "_penstock_change"


def numbered(kinds: RowKinds, changes: pa.RecordBatch, keys: Sequence[str], begin: int) -> Numbers:
    """Return the numbers of changes, whose counts begin at `begin`. Old and new row of an update are in one batch."""
    follows = np.zeros(len(kinds), np.bool_)
    if len(kinds) > 1:
        pairs = (kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER)
        follows[1:] = pairs & same_as_next(changes, keys)
    counts = begin + np.cumsum(~follows) - 1
    return np.asarray(4 * counts + kinds, np.int64)


def kinds_of(numbers: Numbers) -> tuple[RowKinds, Flags]:
    """Return the kinds of the rows of a result, and which of them are the old row of an update.

    An old row without its new row is a delete, a new row without its old row an insert.
    """
    kinds = (numbers % 4).astype(np.int8)
    old = np.zeros(len(numbers), np.bool_)
    if len(numbers) > 1:
        same = numbers[:-1] // 4 == numbers[1:] // 4
        old[:-1] = same & (kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER)
    new = np.zeros(len(numbers), np.bool_)
    new[1:] = old[:-1]
    kinds[(kinds == UPDATE_BEFORE) & ~old] = DELETE
    kinds[(kinds == UPDATE_AFTER) & ~new] = INSERT
    return kinds, old


def ends_with_old_row(batch: pa.RecordBatch) -> bool:
    """Return whether the last row of a batch with numbers is the old row of an update."""
    return bool(batch.column(CHANGE)[-1].as_py() % 4 == UPDATE_BEFORE)


def kinds_for(batch: pa.RecordBatch, keys: Sequence[str]) -> tuple[pa.RecordBatch, RowKinds]:
    """Return the rows of a result without their numbers, and their kinds in a table with these keys.

    An update that changes the key deletes one row and inserts another.
    """
    kinds, old = kinds_of(np.asarray(batch.column(CHANGE), np.int64))
    rows = batch.drop_columns([CHANGE])
    if keys and batch.num_rows > 1:
        moved = np.flatnonzero(old[:-1] & ~same_as_next(rows, keys))
        kinds[moved], kinds[moved + 1] = DELETE, INSERT
    return rows, kinds
