"""Assignment of dynamic buckets: known key hashes keep their bucket, new ones get a bucket that is not full.

The hashes of a bucket are in its hash index file: one for every key that was ever assigned to the bucket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import TableCorrupt
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import Layout
from penstock.table.buckets.route import key_hashes
from penstock.table.meta.data_file import EMPTY_ROW
from penstock.table.meta.entries import HASH_INDEX, CommitMessage, FileKind, IndexEntry
from penstock.table.meta.store import TableStore
from penstock.table.options.buckets import (
    DYNAMIC_BUCKET_INITIAL_BUCKETS,
    DYNAMIC_BUCKET_MAX_BUCKETS,
    DYNAMIC_BUCKET_TARGET_ROW_NUM,
)
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.buffers import Hashes

# Java's limit: its bucket numbers end at 32,766.
MOST_BUCKETS = 32767


@dataclass(frozen=True, slots=True)
class BucketAllocator:
    """The buckets that a writer may fill: up to `target` keys per bucket and `most` buckets per partition.

    Each of `writers` parallel writers opens only buckets with a number that is its own modulo `writers`, so a bucket
    never has two writers. A writer whose number is beyond `most` shares a bucket with another.
    """

    target: int
    most: int
    writer: int = 0
    writers: int = 1

    @classmethod
    def of(cls, schema: TableSchema, writer: int = 0, writers: int = 1) -> BucketAllocator:
        """Return the limits that a table's options set."""
        options = schema.typed
        limit = options[DYNAMIC_BUCKET_MAX_BUCKETS]
        target = options[DYNAMIC_BUCKET_TARGET_ROW_NUM]
        return cls(target, MOST_BUCKETS if limit < 0 else limit, writer, writers)

    def buckets(self, counts: Mapping[int, int], rows: int) -> npt.NDArray[np.int32]:
        """Return a bucket for each of `rows` new keys of a partition whose buckets contain `counts` keys."""
        chosen = np.empty(rows, np.int32)
        done = 0
        for bucket in range(self.writer, self.most, self.writers):
            room = min(rows - done, self.target - counts.get(bucket, 0))
            if room > 0:
                chosen[done : done + room] = bucket
                done += room
            if done == rows:
                return chosen
        # All buckets are full and no more may be opened: they grow beyond the target, in turn.
        own = [bucket for bucket in counts if bucket % self.writers == self.writer] or [self.writer % self.most]
        chosen[done:] = np.asarray(own, np.int32)[np.arange(rows - done) % len(own)]
        return chosen


# The format has big endian numbers; in memory they are native, because numpy sorts and searches those much faster.
_STORED = np.dtype(">i4")


def encode_hashes(hashes: Hashes) -> bytes:
    """Return the bytes of a hash index file. The order is irrelevant: Java writes the order of a hash set."""
    return hashes.astype(_STORED).tobytes()


def decode_hashes(data: bytes, row_count: int, file: str) -> Hashes:
    """Return the hashes in the file's order. `row_count` is from the index manifest, `file` is the path for errors."""
    if len(data) != row_count * _STORED.itemsize:
        raise TableCorrupt(f"a hash index of {len(data)} bytes cannot contain {row_count} hashes", file=file)
    return np.frombuffer(data, _STORED).astype(np.int32)


Buckets = npt.NDArray[np.int32]


@dataclass(slots=True)
class PartitionIndex:
    """The known hashes of a partition, sorted, with the bucket of each."""

    hashes: Hashes
    buckets: Buckets
    counts: dict[int, int] = field(default_factory=dict)
    grown: set[int] = field(default_factory=set)

    def lookup(self, hashes: Hashes) -> Buckets:
        """Return the bucket of each hash, -1 if it is unknown."""
        if len(self.hashes) == 0:
            return np.full(len(hashes), -1, np.int32)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[places] == hashes, self.buckets[places], -1).astype(np.int32)

    def add(self, hashes: Hashes, buckets: Buckets) -> None:
        """Add distinct new hashes, keeping the arrays sorted by hash."""
        all_hashes = np.concatenate([self.hashes, hashes])
        order = np.argsort(all_hashes, kind="stable")
        self.hashes = all_hashes[order]
        self.buckets = np.concatenate([self.buckets, buckets])[order]
        for bucket, count in zip(*np.unique(buckets, return_counts=True), strict=True):
            self.counts[int(bucket)] = self.counts.get(int(bucket), 0) + int(count)
            self.grown.add(int(bucket))


def _allocators(layout: Layout, writer: int, writers: int) -> list[BucketAllocator]:
    """Return the allocators of buckets for new keys.

    A single writer spreads new keys over `dynamic-bucket.initial-buckets` from the start; of several writers each has
    separate buckets.
    """
    options = layout.schema.typed
    first = options.get(DYNAMIC_BUCKET_INITIAL_BUCKETS, 1) if writers == 1 else 1
    if first == 1:
        return [BucketAllocator.of(layout.schema, writer, writers)]
    first = min(first, BucketAllocator.of(layout.schema).most)
    return [BucketAllocator.of(layout.schema, number, first) for number in range(first)]


class Assigner:
    """The assignment of rows of a table with dynamic buckets, by one of `writers` parallel writers."""

    def __init__(self, store: TableStore, layout: Layout, state: TableState, writer: int = 0, writers: int = 1) -> None:
        self._store, self._layout, self._state = store, layout, state
        self._allocators = _allocators(layout, writer, writers)
        self._partitions: dict[bytes, PartitionIndex] = {}

    def assign(
        self, batch: pa.RecordBatch, partitions: Sequence[bytes], places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int32]:
        """Return the bucket of each row of a batch."""
        hashes = key_hashes(self._layout, batch, self._layout.schema.trimmed_primary_keys)
        out = np.empty(batch.num_rows, np.int32)
        for number, partition in enumerate(partitions):
            rows = slice(None) if len(partitions) == 1 else places == number
            out[rows] = self.assign_partition(partition, hashes[rows])
        return out

    def known(self, partition: bytes, hashes: Hashes) -> Buckets:
        """Return the bucket of each known hash, -1 for the others. Assigns no bucket."""
        return self._index(partition).lookup(hashes)

    def assign_partition(self, partition: bytes, hashes: Hashes) -> Buckets:
        """Return the bucket of each hash in a partition; unknown hashes are assigned a bucket."""
        index = self._index(partition)
        # Keys with the same hash share a bucket, which is harmless: rows of different keys may be in one bucket.
        distinct, inverse = np.unique(hashes, return_inverse=True)
        buckets = index.lookup(distinct)
        unknown = np.flatnonzero(buckets < 0)
        if len(unknown):
            buckets[unknown] = self._new_buckets(index, distinct[unknown])
            index.add(distinct[unknown], buckets[unknown])
        return buckets[inverse]

    def _new_buckets(self, index: PartitionIndex, hashes: Hashes) -> Buckets:
        if len(self._allocators) == 1:
            return self._allocators[0].buckets(index.counts, len(hashes))
        buckets = np.empty(len(hashes), np.int32)
        owners = np.mod(hashes.astype(np.int64), len(self._allocators))
        for number, room in enumerate(self._allocators):
            # By hash, which spreads the new keys evenly.
            own = owners == number
            buckets[own] = room.buckets(index.counts, int(own.sum()))
        return buckets

    def _index(self, partition: bytes) -> PartitionIndex:
        index = self._partitions.get(partition)
        if index is None:
            index = self._partitions[partition] = self._loaded(partition)
        return index

    def _loaded(self, partition: bytes) -> PartitionIndex:
        hashes, buckets, counts = [np.empty(0, np.int32)], [np.empty(0, np.int32)], {}
        for entry in self._state.index_of_partition(partition):
            if entry.index_type == HASH_INDEX:
                path = self._path(entry.name, partition, entry.bucket)
                found = decode_hashes(self._store.storage.read(path), entry.row_count, path)
                hashes.append(found)
                buckets.append(np.full(len(found), entry.bucket, np.int32))
                counts[entry.bucket] = len(found)
        every = np.concatenate(hashes)
        order = np.argsort(every, kind="stable")
        return PartitionIndex(every[order], np.concatenate(buckets)[order], counts)

    def with_index(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """Return the messages, adding the new hash index of each bucket that got new keys."""
        return [self._indexed(message) for message in messages]

    def _indexed(self, message: CommitMessage) -> CommitMessage:
        index = self._partitions.get(message.partition)
        if index is None or message.bucket not in index.grown:
            return message
        # Java reads one hash index per bucket, so that the file is written again as a whole.
        hashes = index.hashes[index.buckets == message.bucket]
        name = f"index-{self._store.ambient.new_uuid()}-0"
        data = encode_hashes(hashes)
        self._store.storage.write(self._path(name, message.partition, message.bucket), data)
        entry = IndexEntry(FileKind.ADD, message.partition, message.bucket, HASH_INDEX, name, len(data), len(hashes))
        return replace(message, index_changes=(*message.index_changes, entry))

    def _path(self, name: str, partition: bytes, bucket: int) -> str:
        folder = "" if partition == EMPTY_ROW else self._layout.partition_dir(partition)
        return self._store.paths.index_file(name, folder, bucket)
