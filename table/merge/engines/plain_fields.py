"""Columns of partial-update that belong to no sequence group: the last value that is not null."""

from __future__ import annotations

import numpy as np

from penstock.row_kinds import DELETE, RowKinds
from penstock.table.merge.key_groups import SEQUENCE, Work
from penstock.table.merge.spec import MergeSpec
from penstock.table.values.buffers import Flags, Ints


def result_kinds(work: Work, adds: Flags, last_removes: Flags) -> RowKinds:
    """Return -D for keys whose last row removes them, and for keys that never had an add; otherwise +I."""
    gone = last_removes | ~np.logical_or.reduceat(adds, work.starts)
    return np.where(gone, DELETE, 0).astype(np.int8)


def plain_picks(spec: MergeSpec, work: Work, counted: Flags, base: Ints, names: list[str]) -> dict[str, Ints]:
    """Return for each column the last counted row with a value.

    NOT NULL columns start from the row `base` of their key.
    """
    required = {field.name for field in spec.fields if not field.type.nullable}
    last_row, last_add = work.ends - 1, work.last(counted)
    last_add_or_base = np.where(last_add < 0, base, last_add)
    picks = {}
    for name in names:
        valid = work.valid(name)
        if name == SEQUENCE:
            picks[name] = last_row
        elif name in required:
            picks[name] = last_add_or_base
        else:
            picks[name] = last_add if valid is None else work.last(counted & valid)
    return picks
