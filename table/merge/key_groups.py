"""Grouping of rows by key without moving them: a permutation of the rows, and where each key starts in it.

Nothing here copies the table. Merge engines work on positions, and a single `take` at the end fetches the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import RowKinds, is_retract
from penstock.table.values.buffers import Flags, Ints, Rows, fixed_values
from penstock.table.values.key_permutation import stable_order
from penstock.table.values.sort_keys import Keys, sort_keys
from penstock.table.values.types import AtomicType, DataType

SEQUENCE = "_SEQUENCE_NUMBER"
KIND = "_VALUE_KIND"


# Engines that process columns are a third faster on one chunk than on five; for more rows the copy would be too large.
COMBINED_ROWS = 1 << 20


class KeyOrder(Protocol):
    """The key of a table, and the order of the rows of a key: what grouping needs of a MergeSpec."""

    @property
    def keys(self) -> tuple[str, ...]: ...
    @property
    def sequence_fields(self) -> tuple[str, ...]: ...
    @property
    def descending(self) -> bool: ...
    @property
    def combines_columns(self) -> bool: ...

    def type_of(self, column: str) -> DataType: ...
    def key_types(self) -> list[DataType]: ...


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Rows grouped by key.

    `order` has the row numbers key by key, the latest row last; key k is order[starts[k]:ends[k]].
    """

    rows: pa.Table
    kinds: RowKinds  # the kind of each row
    order: Ints
    starts: Ints

    @property
    def ends(self) -> Ints:
        """Return where each key ends in `order`."""
        return np.append(self.starts[1:], len(self.order))

    @property
    def counts(self) -> Ints:
        """Return the number of rows of each key."""
        return np.diff(self.starts, append=len(self.order))

    def keys_of(self, places: Ints) -> Ints:
        """Return the numbers of the keys at these places of `order`."""
        keys: Ints = np.repeat(np.arange(len(self.starts)), self.counts)[places]
        return keys


def group_rows(spec: KeyOrder, rows: pa.Table, *, sorted_runs: bool = True) -> KeyGroups:
    """Group `rows`, which are concatenated sorted runs, older first, or are in order of arrival.

    Rows of a key are ordered by the user's sequence fields, then by sequence number if the rows have one, then by their
    position.
    """
    keys = sort_keys([rows.column(name) for name in spec.keys], spec.key_types())
    # Runs are concatenated older first and the sort is stable, so rows of a key are already in order of age.
    # Sequence numbers are read only if two writers may have numbered rows independently.
    order = stable_order(keys, sorted_runs=sorted_runs)
    starts = group_starts(keys, order)
    return KeyGroups(rows, kinds_of(rows), _by_age(spec, rows, order, starts), starts)


def with_older_rows(spec: KeyOrder, groups: KeyGroups, rows: pa.Table, keys: Ints) -> KeyGroups:
    """Return the groups with one older row for each of these keys, which ascend.

    `rows` are the older rows, in the order of their keys, followed by the rows of `groups`. The result is the same as
    if these rows were grouped, but no keys are sorted.
    """
    added = np.zeros(len(groups.starts), np.int64)
    added[keys] = 1
    shift = np.cumsum(added)
    starts = groups.starts + shift - added
    order = np.empty(len(groups.order) + len(keys), np.int64)
    order[starts[keys]] = np.arange(len(keys))
    order[np.arange(len(groups.order)) + np.repeat(shift, groups.counts)] = groups.order + len(keys)
    return KeyGroups(rows, kinds_of(rows), _by_age(spec, rows, order, starts), starts)


def newest_rows(spec: KeyOrder, rows: pa.Table) -> Flags:
    """Return a mask of the last row of each key in the order of `group_rows`; a mask alone costs half of the groups."""
    keys = sort_keys([rows.column(name) for name in spec.keys], spec.key_types())
    order = stable_order(keys, sorted_runs=True)
    ordered = keys[order]
    last = np.ones(len(order), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
    if _has_sequence(spec, rows) and not last.all():
        order = _by_age(spec, rows, order, group_starts(keys, order))
    # `last` is by place in the key order. It stays correct when rows of a key change places among themselves.
    mask = np.empty(len(order), np.bool_)
    mask[order] = last
    return mask


def _has_sequence(spec: KeyOrder, rows: pa.Table) -> bool:
    return SEQUENCE in rows.column_names or bool(spec.sequence_fields)


def kinds_of(rows: pa.Table | pa.RecordBatch) -> RowKinds:
    """Return the kinds of the rows, +I for rows without a kind."""
    if KIND not in rows.schema.names:
        return np.zeros(rows.num_rows, np.int8)
    column = rows.column(KIND)
    return np.asarray(fixed_values(whole(column) if isinstance(column, pa.ChunkedArray) else column, np.int8), np.int8)


def visible_rows(rows: Rows) -> Rows:
    """Return the rows without retracts, which are -U and -D."""
    retracts = is_retract(kinds_of(rows))
    return rows.filter(pa.array(~retracts)) if retracts.any() else rows


def group_starts(keys: Keys, order: Ints) -> Ints:
    """Return where each key starts in `order`."""
    ordered = keys[order]
    return np.append(np.zeros(min(len(order), 1), np.int64), np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)


def _by_age(spec: KeyOrder, rows: pa.Table, order: Ints, starts: Ints) -> Ints:
    """Return the order that sorts the rows of each key by their sequence; unchanged if there is no sequence."""
    if len(starts) == len(order) or not _has_sequence(spec, rows):
        return order
    if not spec.sequence_fields and _is_in_sequence(rows, order, starts):
        return order
    return _in_sequence(spec, rows, order, starts)


def _is_in_sequence(rows: pa.Table, order: Ints, starts: Ints) -> bool:
    """Return whether the sequence numbers of each key rise already, as those of runs that are concatenated older first.

    A comparison of all rows costs a fraction of finding those of the keys that occur more than once.
    """
    numbers = sequence_numbers(rows)[order]
    falls = numbers[1:] < numbers[:-1]
    falls[starts[1:] - 1] = False
    return not falls.any()


def _in_sequence(spec: KeyOrder, rows: pa.Table, order: Ints, starts: Ints) -> Ints:
    """Reorder the rows of keys that occur more than once; all others stay in place."""
    counts = np.diff(starts, append=len(order))
    places = np.flatnonzero(np.repeat(counts > 1, counts))
    group = np.repeat(np.arange(len(starts)), counts)[places]
    several = order[places]
    if SEQUENCE in rows.column_names:
        numbers = sequence_numbers(rows)[several]
        # Runs are concatenated older first: where the numbers rise already, no sort is needed.
        if ((numbers[1:] < numbers[:-1]) & (group[1:] == group[:-1])).any():
            several = several[np.lexsort((numbers, group))]
    if spec.sequence_fields:
        subset = rows.select(list(spec.sequence_fields)).take(several)
        values = _user_sequence(spec, subset)
        # Stable: rows with equal sequence fields stay in the order of their sequence numbers.
        several = several[_stable_in_groups(values, group)]
    order = order.copy()
    order[places] = several
    return order


def _user_sequence(spec: KeyOrder, rows: pa.Table) -> Keys:
    """Return sort keys of the sequence fields. Nulls lose, in ascending and in descending order."""
    types = [spec.type_of(name) for name in rows.column_names]
    if not spec.descending:
        return sort_keys(rows.columns, types)
    # The validity precedes each value and is ascending, so a null sorts before all values. A descending order of
    # the values alone would put nulls last, where they win.
    present = [pc.is_valid(column).cast(pa.int8()) for column in rows.columns]
    pairs = [part for pair in zip(present, rows.columns, strict=True) for part in pair]
    both = [part for type_ in types for part in (AtomicType("TINYINT"), type_)]
    return sort_keys(pairs, both, [False, True] * len(types))


def _stable_in_groups(values: Keys, group: Ints) -> Ints:
    # np.lexsort orders by its last argument first.
    if values.dtype == np.int64:
        return np.lexsort((values, group))
    # Keys of bytes: sorted by value, then by group. The second sort is stable and keeps the order of the values.
    first = np.argsort(values, kind="stable")
    return first[np.argsort(group[first], kind="stable")]


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def sequence_numbers(rows: pa.Table) -> Ints:
    """Return the sequence numbers of the rows."""
    return np.asarray(fixed_values(whole(rows.column(SEQUENCE)), np.int64), np.int64)


def concat_parts(spec: KeyOrder, parts: Sequence[pa.Table]) -> pa.Table:
    """Return the parts as one table.

    Kinds are filled in with +I if only some parts have them; sequence numbers are included only if all parts have them.
    """
    names = {name for part in parts for name in part.column_names}
    numbered = all(SEQUENCE in part.column_names for part in parts)
    # A reader leaves out the numbers where the order of the parts alone decides which row is newer.
    wanted = [name for name in parts[0].column_names if name != KIND and (name != SEQUENCE or numbered)]
    if KIND in names:
        wanted.insert(1 if numbered else 0, KIND)
        parts = [part if KIND in part.column_names else _with_adds(part) for part in parts]
    rows = pa.concat_tables([part.select(wanted) for part in parts])
    return rows.combine_chunks() if spec.combines_columns and len(rows) <= COMBINED_ROWS else rows


def _with_adds(part: pa.Table) -> pa.Table:
    kinds = pa.array(np.zeros(len(part), np.int8))
    return part.append_column(pa.field(KIND, pa.int8(), nullable=False), kinds)
