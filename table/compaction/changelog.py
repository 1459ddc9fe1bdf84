"""Computation of a compaction's changelog from the rows of each key before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds, is_retract
from penstock.table.merge.engine_rows import identities
from penstock.table.merge.key_groups import KIND, SEQUENCE, KeyGroups, kinds_of, whole
from penstock.table.merge.spec import MergeSpec
from penstock.table.options.changelogs import (
    CHANGELOG_PRODUCER,
    CHANGELOG_PRODUCER_ROW_DEDUPLICATE,
    CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS,
    ChangelogProducer,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.values.buffers import Flags, Ints, rows_at
from penstock.table.values.types import AtomicType, DataType


@dataclass(frozen=True, slots=True)
class ChangelogSpec:
    """The changelog options of a table."""

    producer: ChangelogProducer = ChangelogProducer.NONE
    deduplicate: bool = False  # no change if the rows before and after are equal,
    ignored: tuple[str, ...] = ()  # apart from these columns

    @classmethod
    def of(cls, options: TableOptions) -> ChangelogSpec:
        """Return the changelog options among a table's options."""
        return cls(
            options[CHANGELOG_PRODUCER],
            options[CHANGELOG_PRODUCER_ROW_DEDUPLICATE],
            options[CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS],
        )


def lowest_rows(groups: KeyGroups, levels: Ints) -> Ints:
    """Return for each key the row on the smallest level above 0, or -1. `levels` is by row."""
    found = np.full(len(groups.starts), -1, np.int64)
    if not levels.any():
        return found
    ordered = levels[groups.order]
    places = np.flatnonzero(ordered)
    keys = groups.keys_of(places)
    if (keys[1:] == keys[:-1]).any():
        # The smallest level of a key is its last one here, and the later row of that level: it is assigned last.
        by_level = np.lexsort((places, -ordered[places], keys))
        places = places[by_level]
    found[keys] = groups.order[places]
    return found


def diff(spec: MergeSpec, changes: ChangelogSpec, before: pa.Table, after: pa.Table, old: Ints, new: Ints) -> pa.Table:
    """Return the changelog, key by key, where row old[i] of `before` was replaced by row new[i] of `after`.

    -1 and rows of kind -U or -D mean that there is no row. -U directly precedes +U; each image has its own sequence
    number.
    """
    was, now = _is_row(kinds_of(before), old), _is_row(kinds_of(after), new)
    updated = was & now
    if changes.deduplicate:
        updated[updated] = ~_equal_rows(spec, changes, before, after, old[updated], new[updated])
    # An update has two rows: its -U is directly before its +U, which readers rely on. So each key has two places.
    inserted, deleted = now & ~was, was & ~now
    keep = np.stack([deleted | updated, inserted | updated], axis=1)
    if after is not before:
        # The numbers of the rows of `after` follow those of `before`.
        new = new + len(before)
        before = pa.concat_tables([before, after.select(before.column_names)])
    source = np.stack([old, new], axis=1)[keep]
    both = updated[:, None]
    kinds = np.where(both, [UPDATE_BEFORE, UPDATE_AFTER], [DELETE, INSERT]).astype(np.int8)[keep]
    images = rows_at(before, source)
    at = images.column_names.index(KIND)
    return images.set_column(at, images.schema.field(at), pa.array(kinds))


def _is_row(kinds: RowKinds, rows: Ints) -> Flags:
    if len(kinds) == 0:
        return np.zeros(len(rows), np.bool_)
    return np.asarray((rows >= 0) & ~is_retract(kinds[rows]))


def _equal_rows(
    spec: MergeSpec, changes: ChangelogSpec, before: pa.Table, after: pa.Table, old: Ints, new: Ints
) -> Flags:
    """Return which pairs of rows are equal.

    Each column compares only pairs that are still equal, and columns of cheap types come first.
    """
    skipped = {KIND, SEQUENCE, *spec.keys, *changes.ignored}
    types = {field.name: field.type for field in spec.fields if field.name not in skipped}
    left = np.arange(len(old))
    for name in sorted(types, key=lambda name: _cost(types[name])):
        ours = whole(before.column(name).take(pa.array(old[left])))
        theirs = whole(after.column(name).take(pa.array(new[left])))
        left = left[_equal(ours, theirs, types[name])]
    equal = np.zeros(len(old), np.bool_)
    equal[left] = True
    return equal


def _cost(type_: DataType) -> int:
    if not isinstance(type_, AtomicType):
        return 3
    return {"VARIANT": 3, "CHAR": 2, "VARCHAR": 2, "BINARY": 2, "VARBINARY": 2}.get(type_.root, 1)


def _equal(ours: pa.Array, theirs: pa.Array, type_: DataType) -> Flags:
    """Return which values are equal. Nulls are equal; NaN equals nothing and 0.0 equals -0.0, in Java as in Arrow."""
    if _cost(type_) == 3:
        ids = identities(pa.concat_arrays([ours, theirs]), type_)
        return np.asarray(ids[: len(ours)] == ids[len(ours) :])
    same = pc.fill_null(pc.equal(ours, theirs), pa.scalar(value=False))
    both_null = pc.and_(pc.is_null(ours), pc.is_null(theirs))
    return np.asarray(pc.or_(same, both_null).to_numpy(zero_copy_only=False), np.bool_)


def row_levels(parts: Sequence[pa.Table], levels: Sequence[int]) -> Ints:
    """Return the level of every row of the concatenated parts."""
    return np.repeat(np.asarray(levels, np.int64), [len(part) for part in parts])
