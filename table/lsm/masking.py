"""A deduplicating read that needs no order: each run keeps its own rows, less those that a newer run replaces.

Winners are masks over the runs, so that rows are filtered where they lie; a run that loses nothing is passed on as it
is (lsm-vectorised 9). That is cheaper than fetching merged rows in key order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.table.lsm.frontier import SortedRun, steps
from penstock.table.lsm.merge.groups import concat_parts, group_rows
from penstock.table.lsm.merge.spec import KIND, SEQUENCE, Engine, MergeSpec


def may_mask(spec: MergeSpec) -> bool:
    """Whether the newest row of a key is what a read shows of it, untouched."""
    return spec.engine is Engine.DEDUPLICATE and not spec.lookup and not spec.ignore_delete


def visible_rows(spec: MergeSpec, runs: Sequence[SortedRun]) -> Iterator[pa.Table]:
    """The rows that a read shows, run by run within each step; no order holds between them."""
    for step in steps(spec, runs):
        if len(step.parts) == 1 and not step.repeats:
            yield from _adds([step.parts[0]])
            continue
        slim = [part.select(_deciding(spec, part)) for part in step.parts]
        groups = group_rows(spec, concat_parts(spec, slim))
        winners = groups.order[groups.ends - 1]
        mask = np.zeros(len(groups.order), np.bool_)
        mask[winners[(groups.kinds[winners] & 1) == 0]] = True
        start = 0
        for part in step.parts:
            mine = mask[start : start + len(part)]
            start += len(part)
            if mine.all():
                yield part
            elif mine.any():
                yield part.filter(pa.array(mine))


def _deciding(spec: MergeSpec, part: pa.Table) -> list[str]:
    """The columns that say which row wins."""
    wanted = {SEQUENCE, KIND, *spec.keys, *spec.sequence_fields}
    return [name for name in part.column_names if name in wanted]


def _adds(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    for part in parts:
        if KIND not in part.column_names:
            yield part
            continue
        shown = (part.column(KIND).to_numpy() & 1) == 0
        yield part if shown.all() else part.filter(pa.array(shown))
