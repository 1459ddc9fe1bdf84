"""The rows that a merge engine processes, key by key, and how it asks for the first or last row of each key.

Values of any type have ids, equal for equal values, which engines compare in place of the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.row_kinds import RowKinds, is_retract
from penstock.table.merge.key_groups import KeyGroups, whole
from penstock.table.values.buffers import Flags, Ints, fixed_values
from penstock.table.values.sort_keys import Keys, sort_keys
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType


@dataclass(frozen=True, slots=True)
class EngineRows:
    """The rows that a merge engine processes, key by key.

    A position is an index in this order; `keys` are group numbers.
    """

    table: pa.Table
    rows: Ints  # the row number of each position
    kinds: RowKinds
    starts: Ints
    counts: Ints
    keys: Ints

    @classmethod
    def of(cls, groups: KeyGroups, chosen: Flags) -> EngineRows:
        """Return the rows of the chosen groups."""
        counts = groups.counts
        rows = groups.order if chosen.all() else groups.order[np.repeat(chosen, counts)]
        counts = counts[chosen]
        starts = np.append(0, np.cumsum(counts))[:-1]
        return cls(groups.rows, rows, groups.kinds[rows], starts, counts, np.flatnonzero(chosen))

    @property
    def size(self) -> int:
        """Return the number of positions."""
        return len(self.rows)

    @property
    def ends(self) -> Ints:
        """Return the position where each key ends."""
        return np.append(self.starts[1:], self.size)

    @property
    def retract(self) -> Flags:
        """Return which positions are -U or -D rows."""
        return is_retract(self.kinds)

    def per_row(self, per_key: Any) -> Any:
        """Repeat one value per key for each of the key's rows."""
        return np.repeat(per_key, self.counts)

    def last(self, mask: Flags) -> Ints:
        """Return the position of the last row of each key in the mask, -1 if there is no such row."""
        # For an empty range reduceat returns the element at its start. That cannot happen here: every key has a
        # row.
        return np.maximum.reduceat(np.where(mask, np.arange(self.size), -1), self.starts)

    def first(self, mask: Flags) -> Ints:
        """Return the position of the first row of each key in the mask, -1 if there is no such row."""
        found = np.minimum.reduceat(np.where(mask, np.arange(self.size), self.size), self.starts)
        return np.where(found == self.size, -1, found)

    def valid(self, name: str) -> Flags | None:
        """Return which positions have a value; None when all do."""
        column = self.table.column(name)
        if column.null_count == 0:
            return None
        return valid_rows(column)[self.rows]

    def values(self, name: str) -> pa.Array:
        """Return the column in the order of positions."""
        return whole(self.table.column(name).take(self.rows))


def dense_ranks(keys: Keys) -> Ints:
    """Return 0 for the smallest key, 1 for the next, and equal numbers for equal keys."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64, copy=False)


def valid_rows(column: pa.ChunkedArray | pa.Array) -> Flags:
    """Return which rows have a value, read directly from the validity bitmaps since it is needed for every column."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [_validity(chunk) for chunk in chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.bool_), *parts])


def _validity(array: pa.Array) -> Flags:
    bitmap = array.buffers()[0] if array.null_count else None
    # An array of type null has nulls but no bitmap; all other arrays without a bitmap have no nulls.
    if bitmap is None:
        return np.full(len(array), array.null_count == 0)
    first, skipped = divmod(array.offset, 8)
    # A slice may begin inside a byte, so whole bytes are unpacked and the first bits are skipped. The bytes that
    # unpackbits returns are 0 or 1 and can be viewed as booleans without a copy.
    packed = np.frombuffer(bitmap, np.uint8, (skipped + len(array) + 7) // 8, first)
    return np.unpackbits(packed, count=skipped + len(array), bitorder="little")[skipped:].view(np.bool_)


def identities(values: pa.Array, type_: DataType) -> Ints:
    """Return an id for each value. All nulls are equal, all NaNs are equal, 0.0 and -0.0 differ.

    The order of the ids has no meaning.
    """
    if len(values) == 0:
        return np.zeros(0, np.int64)
    found = _identities(values, type_)
    # 0 is the id of null. Without nulls the shift is not needed, since ids are compared only within one call.
    return np.where(valid_rows(values), found + 1, 0) if values.null_count else found


def _identities(values: pa.Array, type_: DataType) -> Ints:
    match type_:
        case RowType(fields):
            return combined([identities(values.field(i), member.type) for i, member in enumerate(fields)], len(values))
        case ArrayType(element):
            return _of_lists(values, identities(values.values, element), ordered=True)
        case MapType() | MultisetType():
            key, value = (type_.key, type_.value) if isinstance(type_, MapType) else (type_.element, AtomicType("INT"))
            entries = [identities(values.keys, key), identities(values.items, value)]
            return _of_lists(values, combined(entries, len(values.keys)), ordered=False)
        case AtomicType("VARIANT"):
            return combined([identities(values.field(i), AtomicType("VARBINARY")) for i in range(2)], len(values))
    return dense_ranks(sort_keys([values], [type_], signed_zero=True))


def combined(columns: list[Ints], rows: int) -> Ints:
    """Return ids of rows from the ids of their columns."""
    result = np.zeros(rows, np.int64)
    for column in columns:
        # Made dense after every column: ids stay below the number of rows, so the product cannot exceed 64 bits.
        result = dense_ranks(result * (int(column.max(initial=0)) + 1) + column)
    return result


def _of_lists(values: pa.Array, ids: Ints, *, ordered: bool) -> Ints:
    """Return ids of lists from the ids of their elements. Nested lists are rare, so each costs a Python object."""
    offsets = fixed_values(values.offsets, np.int32)
    numbers: dict[bytes, int] = {}
    found = []
    for start, end in pairwise(offsets.tolist()):
        # Maps and multisets are equal in any order of their entries.
        content = ids[start:end] if ordered else np.sort(ids[start:end])
        found.append(numbers.setdefault(content.tobytes(), len(numbers)))
    return np.array(found, np.int64)
