"""Merging of sorted runs, or of a write buffer in order of arrival, to one row per key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.table.merge.incoming_kinds import kept_rows
from penstock.table.merge.key_groups import KeyGroups, concat_parts, group_rows, kinds_of, visible_rows
from penstock.table.merge.outcome import Outcome
from penstock.table.merge.spec import MergeSpec
from penstock.table.values.buffers import Ints


def merge_rows(
    spec: MergeSpec,
    parts: Sequence[pa.Table],
    *,
    drop_deletes: bool,
    bypass: bool = True,
    levels: Sequence[int] | None = None,
    ordered: bool = True,
    repeats: bool = False,
) -> pa.Table:
    """Return one row per key, in key order, from runs that are each sorted by key without duplicates; older runs first.

    `levels`, parallel to `parts`, is required where upper levels contain merged rows (`spec.lookup`). A key with a
    single row keeps it unchanged unless `bypass` is off. Parts may lack _VALUE_KIND (all +I) and, if their order alone
    decides which row is older, _SEQUENCE_NUMBER. Without `ordered`, rows are returned in no order, which saves moving
    unchanged rows. `repeats`: a part may contain a key several times, older rows first.
    """
    # A run has one row per key, and an engine leaves keys with a single row unchanged, in Java too.
    if len(parts) == 1 and bypass and not (spec.ignore_delete or repeats):
        return visible_rows(parts[0]) if drop_deletes else parts[0]
    outcome = merge_parts(spec, parts, bypass=bypass, levels=levels, repeats=repeats)
    keep = outcome.visible if drop_deletes else None
    return outcome.table(keep) if ordered else outcome.unordered(keep)


def merge_parts(
    spec: MergeSpec,
    parts: Sequence[pa.Table],
    *,
    bypass: bool,
    levels: Sequence[int] | None,
    repeats: bool,
) -> Outcome:
    """Merge as `merge_rows` does, but without fetching the rows; -D rows represent deleted keys."""
    rows = concat_parts(spec, parts)
    row_levels = None
    if spec.lookup and levels is not None:
        row_levels = np.repeat(np.asarray(levels, np.int64), [len(part) for part in parts])
    if spec.ignore_delete and (kept := kept_rows(spec, kinds_of(rows))) is not None:
        rows = rows.filter(pa.array(kept))
        row_levels = None if row_levels is None else row_levels[kept]
    if len(parts) == 1 and not repeats:
        everything = np.arange(len(rows))  # every key is unique: nothing to order
        groups = KeyGroups(rows, kinds_of(rows), everything, everything)
    else:
        groups = group_rows(spec, rows)
    return merge_groups(spec, groups, bypass=bypass, levels=row_levels)


def merge_groups(spec: MergeSpec, groups: KeyGroups, *, bypass: bool = True, levels: Ints | None = None) -> Outcome:
    """Merge groups. With `levels`, by row: above level 0, only the rows of each key's smallest level count."""
    # Java leaves the only row of a key as it is, with its kind, except in the merge for a lookup changelog, where
    # the engine processes it too. Lookups switch the bypass off.
    chosen = groups.counts > 1 if bypass else np.ones(len(groups.starts), np.bool_)
    if levels is not None:
        groups = _smallest_level(groups, levels)
    return spec.engine.merge(spec, groups, chosen)


def _smallest_level(groups: KeyGroups, levels: Ints) -> KeyGroups:
    ordered = levels[groups.order]
    if len(ordered) == 0:
        return groups
    keys = groups.keys_of(np.flatnonzero(ordered))
    if (keys[1:] != keys[:-1]).all():
        return groups
    # The row on the smallest upper level was merged with those below it, which must not count twice.
    upper = np.where(ordered > 0, ordered, np.iinfo(np.int64).max)
    smallest = np.repeat(np.minimum.reduceat(upper, groups.starts), groups.counts)
    kept = (ordered == 0) | (ordered == smallest)
    starts = np.append(0, np.cumsum(np.add.reduceat(kept, groups.starts, dtype=np.int64)))[:-1]
    return KeyGroups(groups.rows, groups.kinds, groups.order[kept], starts)
