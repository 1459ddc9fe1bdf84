"""Update images after a filter or a change of keys: which updates become deletes and inserts.

A source sends an update as a before image directly followed by its after image, or as an after image alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import ChangeBatch
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds
from penstock.schema_evolution.types.source import TYPED

Flags = npt.NDArray[np.bool_]


def image_pairs(change: ChangeBatch) -> npt.NDArray[np.int64]:
    """Return the positions of before images that are directly followed by their after images.

    Both are in one message, or the first images of two messages, as in aliyun-json, and then have the same key.
    """
    kinds, subs = change.kinds, change.subs
    if len(kinds) < 2:
        return np.zeros(0, np.int64)
    found = np.flatnonzero((kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER))
    is_one = change.positions[found] == change.positions[found + 1]
    in_one: npt.NDArray[np.int64] = found[is_one]
    in_two = found[~is_one & (subs[found] == 0) & (subs[found + 1] == 1)]
    keys = change.schema.primary_keys
    if not len(in_two) or not keys or not set(keys) <= set(change.rows.schema.names):
        return in_one
    moved = _moved([change.rows.column(name) for name in keys], in_two)
    return np.sort(np.concatenate((in_one, in_two[~moved])))


def updates_in_place(change: ChangeBatch, keys: Sequence[str], removes: Flags) -> npt.NDArray[np.int64]:
    """Return the positions of old rows of updates that are directly followed by the new row of the same key.

    An update that moves a row to another partition arrives as two rows, one that `removes` the old row and an insert.
    Their keys may be equal.
    """
    before = image_pairs(change)
    kinds, subs = change.kinds, change.subs
    if len(kinds) < 2:
        return before
    # The two images of a row have neighbouring numbers in their message, the first of them an even one.
    split = (
        removes[:-1]
        & (kinds[1:] == INSERT)
        & (change.positions[:-1] == change.positions[1:])
        & (subs[:-1] % 2 == 0)
        & (subs[:-1] + 1 == subs[1:])
    )
    found = np.flatnonzero(split)
    if not len(found) or not keys or not set(keys) <= set(change.rows.schema.names):
        return before
    moved = _moved([change.rows.column(name) for name in keys], found)
    return np.sort(np.concatenate((before, found[~moved])))


def key_only_deletes(change: ChangeBatch) -> Flags:
    """Return which deletes have only the key of their row, as from PostgreSQL without REPLICA IDENTITY FULL.

    Columns that lookups have added are no sign of a whole row.
    """
    deletes: Flags = change.kinds == DELETE
    keys = {*change.schema.primary_keys}
    others = [
        column
        for field, column in zip(change.schema.fields, change.rows.columns, strict=True)
        if field.name not in keys and not (field.type or "").startswith(TYPED)
    ]
    if not keys or not others:
        return np.zeros(len(change), np.bool_)
    for column in others:
        if not deletes.any():
            break
        deletes = deletes & np.asarray(pc.is_null(column), np.bool_)
    return deletes


def filtered_by(change: ChangeBatch, passes: Flags) -> ChangeBatch:
    """Return the changes of the rows that pass a filter."""
    kinds, kept = change.kinds.copy(), np.ones(len(change), np.bool_)
    follow_filter(change, passes, kinds, kept)
    return replace(change, kinds=kinds).filter(kept)


def follow_filter(change: ChangeBatch, passes: Flags, kinds: RowKinds, kept: Flags) -> None:
    """Apply the filter by changing `kinds` and `kept` in place."""
    kept &= passes
    before = image_pairs(change)
    after = before + 1
    kinds[before[passes[before] & ~passes[after]]] = DELETE
    kinds[after[~passes[before] & passes[after]]] = INSERT
    alone = kinds == UPDATE_AFTER
    alone[after] = False
    # Without its before image it is unknown whether the row matched before. Deleting a row that does not exist is
    # harmless.
    left = alone & ~passes
    kinds[left] = DELETE
    kept |= left


def split_key_changes(change: ChangeBatch, keys: list[pa.Array], kinds: RowKinds, kept: Flags) -> None:
    """Split updates that change a key into deletes and inserts, by changing `kinds` in place."""
    before = image_pairs(change)
    # Only updates whose two images are both left: the filter has already turned the others into deletes and
    # inserts.
    both = kept[before] & kept[before + 1] & (kinds[before] == UPDATE_BEFORE)
    before = before[both]
    if not len(before):
        return
    moved = _moved(keys, before)
    kinds[before[moved]] = DELETE
    kinds[before[moved] + 1] = INSERT


def _moved(keys: Sequence[pa.Array], before: npt.NDArray[np.int64]) -> Flags:
    """Return which of these old rows differ from their new rows in a key."""
    moved = np.zeros(len(before), np.bool_)
    for column in keys:
        old, new = column.take(pa.array(before)), column.take(pa.array(before + 1))
        same = pc.fill_null(pc.equal(old, new), fill_value=False)
        both_null = pc.and_(pc.is_null(old), pc.is_null(new))
        moved |= ~pc.or_(same, both_null).to_numpy(zero_copy_only=False)
    return moved
