"""The merge engine `partial-update`."""

from __future__ import annotations

import numpy as np

from penstock.row_kinds import DELETE
from penstock.table.merge.incoming_kinds import check_retracts
from penstock.table.merge.key_groups import Work
from penstock.table.merge.outcome import Merged
from penstock.table.merge.plain_fields import plain_picks, result_kinds
from penstock.table.merge.sequence_groups import merge_sequence_groups
from penstock.table.merge.spec import KIND, MergeSpec


def merge_partial_update(spec: MergeSpec, work: Work) -> Merged:
    """Merge rows so that a null never overwrites a value.

    A -D row removes the key if the table's options say so. A following -U row makes it visible again, as in Java.
    """
    if spec.groups:
        return merge_sequence_groups(spec, work)
    check_retracts(spec, work.kinds)
    adds = ~work.retract
    removed = work.last(work.kinds == DELETE)
    counted = adds & (np.arange(work.size) > work.per_row(removed))
    kinds = result_kinds(work, adds, work.kinds[work.ends - 1] == DELETE)
    base = np.where(removed >= 0, removed, work.starts)
    names = [name for name in work.table.column_names if name != KIND]
    return Merged(kinds, plain_picks(spec, work, counted, base, names))
