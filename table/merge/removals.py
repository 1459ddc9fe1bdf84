"""Deletes and later rows of the same key among rows that are merged before they meet the older rows of the table.

Merged into one row, only the later row would be left, and the columns of the row that was deleted would come back from
older files. So the -D row stays a row of its own, older than what follows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.row_kinds import DELETE
from penstock.table.merge.key_groups import SEQUENCE, KeyGroups
from penstock.table.merge.spec import MergeSpec
from penstock.table.values.buffers import rows_at


def removals_apart(spec: MergeSpec, groups: KeyGroups, number: int) -> tuple[pa.Table | None, KeyGroups]:
    """Return the last -D row of each key that has later rows, in key order, and the groups without the removed rows.

    A -D row that is the last row of its key remains alone in its group, with its own sequence fields. A merge would
    make these null, and the row older than any other. The first result is None if no key has both kinds of rows.

    The -D rows get the sequence number `number`, the least of the rows that are written together: their file is then
    older than those with the later rows for all who order files by number, whatever other keys they contain.
    """
    deletes = groups.kinds[groups.order] == DELETE if spec.remove_on_delete else np.zeros(0, np.bool_)
    if len(groups.starts) == len(groups.order) or not deletes.any():
        return None, groups
    places = np.arange(len(groups.order))
    removed = np.maximum.reduceat(np.where(deletes, places, -1), groups.starts)
    last = groups.ends - 1
    begins = np.where(removed < 0, groups.starts, np.minimum(removed + 1, last))
    kept = places >= np.repeat(begins, groups.counts)
    starts = np.append(0, np.cumsum(groups.ends - begins))[:-1]
    chosen = groups.order[removed[(removed >= 0) & (removed < last)]]
    rest = KeyGroups(groups.rows, groups.kinds, groups.order[kept], starts)
    return (_numbered(rows_at(groups.rows, chosen), number) if len(chosen) else None), rest


def _numbered(rows: pa.Table, number: int) -> pa.Table:
    numbers = pa.array(np.full(len(rows), number, np.int64))
    return rows.set_column(rows.column_names.index(SEQUENCE), rows.schema.field(SEQUENCE), numbers)
