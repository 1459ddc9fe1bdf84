"""Changes as versions: which versions end, which begin, and which are current, for all keys of a batch at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds, is_retract
from penstock.schema_evolution.row_versions import (
    COLUMNS,
    END_POSITION,
    IS_CURRENT,
    NUMBERS,
    OPEN,
    POSITION,
    TIME,
    VALID_FROM,
    VALID_TO,
    source_keys,
)
from penstock.table.merge.engine_rows import identities
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.buffers import one_batch, rows_at
from penstock.table.values.sort_keys import sort_keys

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_NONE = -1
_OPENED = 2  # the part of the written rows that are new current versions


@dataclass(frozen=True, slots=True)
class VersionChain:
    """The current versions of some keys, as the table has them, followed by the changes of these keys, in key order.

    `keys` numbers the keys. `current` is, for each row, the row of the same key that the table has, or -1.
    """

    schema: TableSchema
    rows: pa.RecordBatch
    live: Flags  # false for deletes
    keys: Ints
    in_table: Flags
    current: Ints

    @classmethod
    def of(cls, schema: TableSchema, current: pa.RecordBatch, changes: pa.RecordBatch, kinds: RowKinds) -> VersionChain:
        """Build the chain, without old images of updates and without changes that the table already has."""
        kept = kinds != UPDATE_BEFORE
        changes, kinds = changes.filter(pa.array(kept)), kinds[kept]
        rows = pa.Table.from_batches([current, changes]).combine_chunks()
        names = source_keys(schema)
        columns = [rows.column(name).combine_chunks() for name in names]
        _, keys = np.unique(sort_keys(columns, [schema.field(name).type for name in names]), return_inverse=True)
        in_table = np.arange(len(rows)) < len(current)
        live = np.concatenate((np.ones(len(current), np.bool_), ~is_retract(kinds)))
        place = np.full(int(keys.max()) + 1 if len(keys) else 0, _NONE, np.int64)
        place[keys[: len(current)]] = np.arange(len(current))
        fresh = in_table | ~_is_applied(rows, in_table, place[keys])
        # Stable: the row of the table precedes the changes, and these keep their order.
        order = np.flatnonzero(fresh)
        order = order[np.argsort(keys[order], kind="stable")]
        ordered = one_batch(rows_at(rows, order))
        own, numbers = in_table[order], keys[order]
        heads = np.full(len(place), _NONE, np.int64)
        heads[numbers[own]] = np.flatnonzero(own)
        return cls(schema, ordered, live[order], numbers, own, heads[numbers])

    def written(self, ignored: Collection[str], *, with_old: bool) -> tuple[pa.RecordBatch, RowKinds]:
        """Return the rows to write: ended versions, current versions, and deletes of keys without a current version.

        A row that differs from the version before it only in `ignored` columns makes no version. With `with_old`, the
        old row of a current version that changes is returned as well.
        """
        begins = self._begins(ignored)
        before = np.concatenate((np.zeros(1, np.bool_), self.live[:-1]))[: len(self.live)] & ~self._first
        # Where a version begins, or the last one ends by a delete.
        events = np.flatnonzero(begins | (before & ~self.live))
        follows = np.zeros(len(events), np.bool_)
        follows[:-1] = self.keys[events[1:]] == self.keys[events[:-1]]
        times = self._times(events, begins[events])
        after = np.minimum(np.arange(len(events)) + 1, max(len(events) - 1, 0))
        over = begins[events] & follows
        ends = self._ended(events[over], events[after[over]], times[over], times[after[over]])
        last = np.flatnonzero(begins[events] & ~follows)
        return self._together(ends, events[over], events[last], times[last], with_old=with_old)

    @property
    def _first(self) -> Flags:
        first = np.ones(len(self.keys), np.bool_)
        first[1:] = self.keys[1:] != self.keys[:-1]
        return first

    def _begins(self, ignored: Collection[str]) -> Flags:
        """Return the rows with which a version begins."""
        apart = {*COLUMNS, *self.schema.primary_keys, *ignored}
        same = ~self._first
        same[1:] &= self.live[:-1]
        for field in self.schema.fields:
            if field.name not in apart and same.any():
                ids = identities(self.rows.column(field.name), field.type)
                same[1:] &= ids[1:] == ids[:-1]
        return self.live & ~same

    def _times(self, events: Ints, begins: Flags) -> Ints:
        """Return when each event happened, in milliseconds. A version does not end before it began.

        Clocks of sources go back, and a source snapshot has the clock of the driver.
        """
        times = _millis(self.rows.column(VALID_FROM))[events]
        # After a delete nothing is known of the time before it, as if it had been in an earlier batch.
        alone = np.ones(len(events), np.bool_)
        alone[1:] = (self.keys[events[1:]] != self.keys[events[:-1]]) | ~begins[:-1]
        distinct, ranks = np.unique(times, return_inverse=True)
        rising = np.maximum.accumulate(np.cumsum(alone) * (len(distinct) + 1) + ranks)
        return np.asarray(distinct[rising % (len(distinct) + 1)], np.int64)

    def _ended(self, rows: Ints, enders: Ints, begun: Ints, ends: Ints) -> pa.RecordBatch:
        """Return versions with their ends."""
        ours, theirs = self.rows.take(pa.array(rows)), self.rows.take(pa.array(enders))
        # A version that ended when the table was emptied has its end already.
        emptied = ~_flags(ours.column(IS_CURRENT))
        ends = np.where(emptied, _millis(ours.column(VALID_TO)), ends)
        moments = np.where(emptied, ends, _millis(theirs.column(VALID_FROM)))
        places = pc.if_else(pa.array(emptied), "emptied", theirs.column(POSITION))
        texts = pc.binary_join_element_wise(pc.utf8_lpad(pa.array(moments).cast(pa.string()), 13, "0"), places, " ")
        return _with(
            ours,
            {
                VALID_FROM: pa.array(begun).cast(TIME),
                VALID_TO: pa.array(ends).cast(TIME),
                IS_CURRENT: pa.repeat(pa.scalar(value=False), len(ours)),
                END_POSITION: texts,
            },
        )

    def _together(
        self, ended: pa.RecordBatch, ended_rows: Ints, last: Ints, times: Ints, *, with_old: bool
    ) -> tuple[pa.RecordBatch, RowKinds]:
        # A current version that continues is not written again, unless the table was emptied in between.
        sizes = np.bincount(self.keys) if len(self.keys) else np.zeros(0, np.int64)
        emptied = ~_flags(self.rows.column(IS_CURRENT))
        new = ~self.in_table[last] | (emptied[last] & (sizes[self.keys[last]] > 1))
        current = np.zeros(len(sizes), np.bool_)
        current[self.keys[last]] = True
        rows, times = last[new], times[new]
        opened = _with(
            self.rows.take(pa.array(rows)),
            {
                VALID_FROM: pa.array(times).cast(TIME),
                VALID_TO: pa.nulls(len(rows), TIME),
                IS_CURRENT: pa.repeat(pa.scalar(value=True), len(rows)),
                END_POSITION: pa.repeat(pa.scalar(OPEN), len(rows)),
            },
        )
        replaced = self.current[rows] >= 0
        old = self.current[rows[replaced]] if with_old else np.zeros(0, np.int64)
        gone = np.flatnonzero(self.in_table & ~current[self.keys])
        parts = [ended, self.rows.take(pa.array(old)), opened, self.rows.take(pa.array(gone))]
        every = pa.Table.from_batches(parts).combine_chunks()
        which = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        kinds = np.array([INSERT, UPDATE_BEFORE, INSERT, DELETE], np.int8)[which]
        kinds[which == _OPENED] = np.where(replaced, UPDATE_AFTER, INSERT)
        keys = self.keys[np.concatenate([ended_rows, old, rows, gone])]
        # Key by key, the old row of an update directly before the new one.
        order = np.lexsort((which, keys))
        return one_batch(rows_at(every, order)), kinds[order]


def _is_applied(rows: pa.Table, in_table: Flags, current: Ints) -> Flags:
    """Return the changes that the table had applied before its current version began: they are read again.

    Only the order of one stream says so, and only if the time agrees: a stream that was created again counts from 0.
    """
    found = np.zeros(len(rows), np.bool_)
    asked = np.flatnonzero(~in_table & (current >= 0))
    if len(asked) == 0:
        return found
    ours, theirs = pa.array(asked), pa.array(current[asked])
    position = rows.column(POSITION).combine_chunks()
    mine, known = position.take(ours), position.take(theirs)
    same = pc.equal(pc.utf8_slice_codeunits(mine, 0, -NUMBERS), pc.utf8_slice_codeunits(known, 0, -NUMBERS))
    begun = _millis(rows.column(VALID_FROM).combine_chunks())
    before = pc.less_equal(mine, known).to_numpy(zero_copy_only=False) & (begun[asked] <= begun[current[asked]])
    found[asked] = same.to_numpy(zero_copy_only=False) & before
    return found


def _millis(column: pa.Array) -> Ints:
    return np.asarray(column.cast(TIME).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _flags(column: pa.Array) -> Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def _with(rows: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    for name, column in columns.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), column.cast(rows.schema.field(place).type))
    return rows
