"""Cross-partition upsert: the primary key does not include the partition columns, so a key may move between partitions.

An index knows the partition and the bucket of each key. When a row has another partition, the merge engine decides as
in Java: deduplicate deletes the old row and moves the key, partial-update and aggregation keep the old partition,
first-row ignores the new row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.row_kinds import DELETE, RowKinds
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.input_rows import RowRefused
from penstock.table.buckets.layout import Layout
from penstock.table.dynamic_buckets.assigner import BucketAllocator
from penstock.table.dynamic_buckets.index_folder import IndexFolder
from penstock.table.dynamic_buckets.index_runs import UNKNOWN, KeyRun, bucket_of, partition_of, places_of
from penstock.table.dynamic_buckets.key_index import (
    KeyedRows,
    KeyIndex,
    Overlay,
    PlacedRows,
    fingerprint_codes,
    number_pairs,
)
from penstock.table.merge.engines.registry import merge_engine, merge_spec
from penstock.table.merge.spec import MergeEngine, MovedKey
from penstock.table.meta.store import TableStore
from penstock.table.values.buffers import Ints, one_batch
from penstock.table.values.fingerprints import Fingerprints
from penstock.table.values.internal import from_internal

_REMOVED = UNKNOWN - 1  # the place of a key that a row of this commit has removed


@dataclass(slots=True)
class KeyPlacer:
    """The assignment of rows of a cross-partition table to buckets.

    All rows of a key must pass through one placer, in order.

    The index covers the table's committed files. Keys placed since are kept beside it until the next placer reads them
    from the table.
    """

    store: TableStore
    layout: Layout
    state: TableState
    room: BucketAllocator
    _index: KeyIndex | None = None
    _own: Overlay = field(default_factory=Overlay)
    _left: Overlay = field(default_factory=Overlay)  # places that moved keys left, by key and partition

    @classmethod
    def opened(
        cls, store: TableStore, layout: Layout, state: TableState, writer: int = 0, writers: int = 1
    ) -> KeyPlacer:
        """Create a placer; the index is loaded when it is first used."""
        return cls(store, layout, state, BucketAllocator.of(layout.schema, writer, writers))

    @property
    def engine(self) -> MergeEngine:
        """Return the table's merge engine."""
        return merge_engine(self.layout.schema.typed)

    @property
    def _ignores_deletes(self) -> bool:
        return merge_spec(self.layout.schema).ignore_delete

    def place(self, rows: pa.RecordBatch, kinds: RowKinds) -> PlacedRows:
        """Return the rows with their buckets, and with the deletes that moving keys requires."""
        batch = KeyedRows.of(self.layout, rows, kinds, self.index.number)
        known = self._known(batch.keys)
        match self.engine.moved_key:
            case MovedKey.MOVES:
                return self._moved(batch, known)
            case MovedKey.IS_DROPPED:
                return self._first(batch, known)
            case MovedKey.STAYS:
                return self._stayed(batch, known)

    def found_in(self, index: KeyIndex) -> Iterator[bytes]:
        """Yield the partitions in which an index knows keys that this placer assigned."""
        numbers = {int(n) for places in self._own.places(index, self._second) for n in np.unique(partition_of(places))}
        yield from (partition for n in sorted(numbers - {-1}) if (partition := index.partitions[n]) is not None)

    @property
    def index(self) -> KeyIndex:
        """Return the index at the placer's snapshot."""
        if self._index is None:
            self._index = IndexFolder(self.store, self.layout).at(self.state.snapshot)
        return self._index

    def _known(self, keys: Fingerprints) -> Ints:
        places = self._own.find(keys)
        left = np.flatnonzero(places == UNKNOWN)
        if len(left):
            places[left] = self.index.find(Fingerprints(keys.high[left], keys.low[left]), self._second)
        places[places == _REMOVED] = UNKNOWN
        return places

    @property
    def _second(self) -> int:
        return self.store.ambient.now_millis() // 1000

    def _moved(self, batch: KeyedRows, known: Ints) -> PlacedRows:
        """Place rows of a deduplicate table.

        Consecutive rows of a key with the same partition stay together. Whenever the partition changes, a delete with
        the new row's values is added for the old partition.
        """
        ordered = batch.partitions[batch.order]
        first = np.zeros(len(ordered), np.bool_)
        first[batch.starts] = True
        opens = first.copy()
        opens[1:] |= ordered[1:] != ordered[:-1]
        # A stay is a series of rows of a key with the same partition; it begins at this place in key order.
        stays = np.flatnonzero(opens)
        before = np.full(len(stays), UNKNOWN, np.int64)
        before[first[stays]] = known
        # Only a key's first stay can be where the table has the key already. All other stays are moves or new keys.
        settled = first[stays] & (before != UNKNOWN) & (partition_of(before) == ordered[stays])
        moves = np.flatnonzero(~settled)
        self.index.count(before[moves][before[moves] != UNKNOWN], -1)
        places = before.copy()
        key = np.cumsum(first[stays]) - 1
        places[moves] = self._destinations(batch, known, key[moves], stays[moves])
        # A later stay of a key in this batch leaves the place of the stay before it, which is then one key emptier.
        followed = np.flatnonzero(~first[stays])
        before[followed] = places[followed - 1]
        self.index.count(places[followed - 1], -1)
        by_row = np.empty(len(ordered), np.int64)
        by_row[batch.order] = np.repeat(places, np.diff(stays, append=len(ordered)))
        # For later batches, a key is in the place of its last row.
        lasts = np.searchsorted(stays, np.append(batch.starts[1:], len(ordered))) - 1
        self._remember(batch.keys, known, places[lasts])
        gone = moves[before[moves] != UNKNOWN]
        if len(gone) and self._ignores_deletes:
            raise RowRefused(
                f"{len(gone)} rows would move to another partition and stay in the old one as well, because the"
                " table ignores deletes",
                table=self.store.name,
                hint="unset ignore-delete, or add the partition columns to the primary key",
            )
        self._remember_left(batch.keys, key[gone], before[gone])
        return self._with_deletes(batch, by_row, batch.order[stays[gone]], before[gone])

    def _destinations(self, batch: KeyedRows, known: Ints, keys: Ints, stays: Ints) -> Ints:
        """Return the place of each key that arrives in a partition, at the first row of each stay there.

        A key that comes back to a partition gets the bucket that it left there. In another bucket of the partition, the
        new row would not be merged with the delete, and a changelog could list the delete of the key last.
        """
        partitions = batch.partitions[batch.order][stays]
        # In this order: where the table has the key, where the key was before in this commit, or a bucket with
        # room.
        places = np.where(partition_of(known[keys]) == partitions, known[keys], UNKNOWN)
        unseen = np.flatnonzero(places == UNKNOWN)
        places[unseen] = self._left.find(fingerprint_codes(batch.keys, keys[unseen], partitions[unseen]))
        self.index.count(places[places != UNKNOWN], 1)
        new = np.flatnonzero(places == UNKNOWN)
        rows = batch.order[stays[new]]
        if (np.diff(keys[new]) > 0).all():  # no key arrives twice, as in almost every batch
            places[new] = self._opened(partitions[new], rows)
            return places
        _, firsts, which = np.unique(number_pairs(keys[new], partitions[new]), return_index=True, return_inverse=True)
        places[new] = self._opened(partitions[new[firsts]], rows[firsts])[which]
        self.index.count(np.delete(places[new], firsts), 1)
        return places

    def _remember_left(self, keys: Fingerprints, left: Ints, places: Ints) -> None:
        """Remember the places that keys left; `left` are the numbers of these keys."""
        if len(left):
            _, firsts = np.unique(number_pairs(left, partition_of(places)), return_index=True)
            codes = fingerprint_codes(keys, left[firsts], partition_of(places[firsts]))
            self._left.add(KeyRun.of(codes, places[firsts], self._second))

    def _with_deletes(self, batch: KeyedRows, places: Ints, rows: Ints, old: Ints) -> PlacedRows:
        if len(rows) == 0:
            return self._placed(batch.rows, batch.kinds, places)
        deleted = self._in_partitions(batch.rows.take(pa.array(rows)), partition_of(old))
        both = one_batch(pa.Table.from_batches([batch.rows, deleted]))
        # A delete directly precedes the row that causes it.
        order = np.argsort(np.concatenate((2 * np.arange(batch.rows.num_rows) + 1, 2 * rows)))
        kinds = np.concatenate((batch.kinds, np.full(len(rows), DELETE, np.int8)))
        return self._placed(both.take(pa.array(order)), kinds[order], np.concatenate((places, old))[order])

    def _stayed(self, batch: KeyedRows, known: Ints) -> PlacedRows:
        """Place all rows of a key in the partition that it has, or in the partition of its first row.

        After a -D row that removes the key, the next row is a first one.
        """
        removed = batch.kinds[batch.order] == DELETE
        if removed.any() and merge_spec(self.layout.schema).delete_removes_key:
            by_row = self._stayed_until_removed(batch, known, removed)
        else:
            by_row = batch.spread(self._settled(batch, known))
        if (partition_of(by_row) == batch.partitions).all():
            return self._placed(batch.rows, batch.kinds, by_row)
        return self._placed(self._in_partitions(batch.rows, partition_of(by_row)), batch.kinds, by_row)

    def _stayed_until_removed(self, batch: KeyedRows, known: Ints, removed: npt.NDArray[np.bool_]) -> Ints:
        """Return the place of each row; `removed` are the rows in key order that remove their key."""
        first = np.zeros(len(removed), np.bool_)
        first[batch.starts] = True
        opens = first.copy()
        opens[1:] |= removed[:-1]
        # A stay is a series of rows of a key up to the one that removes it; it begins at this place in key order.
        stays = np.flatnonzero(opens)
        ends = np.append(stays[1:], len(removed))
        key = np.cumsum(first[stays]) - 1
        places = np.full(len(stays), UNKNOWN, np.int64)
        places[first[stays]] = known
        new = np.flatnonzero(places == UNKNOWN)
        places[new] = self._destinations(batch, known, key[new], stays[new])
        gone = np.flatnonzero(removed[ends - 1])
        self.index.count(places[gone], -1)
        self._remember_left(batch.keys, key[gone], places[gone])
        lasts = np.append(np.flatnonzero(np.diff(key)), len(key) - 1)
        self._remember(batch.keys, known, np.where(removed[ends[lasts] - 1], _REMOVED, places[lasts]))
        by_row = np.empty(len(removed), np.int64)
        by_row[batch.order] = np.repeat(places, np.diff(stays, append=len(removed)))
        return by_row

    def _first(self, batch: KeyedRows, known: Ints) -> PlacedRows:
        by_row = batch.spread(self._settled(batch, known))
        kept = partition_of(by_row) == batch.partitions
        return self._placed(batch.rows.filter(pa.array(kept)), batch.kinds[kept], by_row[kept])

    def _settled(self, batch: KeyedRows, known: Ints) -> Ints:
        places = known.copy()
        new = np.flatnonzero(known == UNKNOWN)
        rows = batch.order[batch.starts[new]]
        places[new] = self._opened(batch.partitions[rows], rows)
        self._remember(batch.keys, known, places)
        return places

    def _opened(self, partitions: Ints, rows: Ints) -> Ints:
        """Return a place in its partition for each key without a place, in the order in which the rows arrived."""
        places = np.empty(len(partitions), np.int64)
        arrival = np.argsort(rows, kind="stable")
        for partition in np.unique(partitions):
            of_partition = arrival[partitions[arrival] == partition]
            counts = self._counts(int(partition))
            places[of_partition] = places_of(partitions[of_partition], self.room.buckets(counts, len(of_partition)))
        self.index.count(places, 1)
        return places

    def _counts(self, partition: int) -> dict[int, int]:
        return {place & 0xFFFF: rows for place, rows in self.index.counts.items() if place >> 16 == partition}

    def _remember(self, keys: Fingerprints, known: Ints, places: Ints) -> None:
        new = np.flatnonzero(known != places)
        if len(new):
            self._own.add(KeyRun.of(Fingerprints(keys.high[new], keys.low[new]), places[new], self._second))

    def _placed(self, rows: pa.RecordBatch, kinds: RowKinds, places: Ints) -> PlacedRows:
        numbers, inverse = np.unique(partition_of(places), return_inverse=True)
        partitions = [self._partition(int(number)) for number in numbers]
        return PlacedRows(rows, kinds, partitions, inverse.astype(np.int64), bucket_of(places).astype(np.int32))

    def _partition(self, number: int) -> bytes:
        partition = self.index.partitions[number]
        assert partition is not None
        return partition

    def _in_partitions(self, rows: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
        """Return the rows with the values of the given partitions in their partition columns."""
        distinct, inverse = np.unique(numbers, return_inverse=True)
        values = [self.layout.partition_values(self._partition(int(number))) for number in distinct]
        columns = list(rows.columns)
        for place, part in enumerate(self.layout.partition_fields):
            own = from_internal([value[place] for value in values], part.type)
            columns[rows.schema.get_field_index(part.name)] = own.take(pa.array(inverse))
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
