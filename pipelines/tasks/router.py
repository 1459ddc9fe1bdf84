"""Determines the bucket of each row, and which write task that bucket belongs to in this batch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.change import Int64s
from penstock.pipelines.mapping.target_tables import TargetVersion, state_at
from penstock.table.buckets.layout import BucketMode
from penstock.table.buckets.route import key_hashes, partitions_of, route, slices
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.dynamic_buckets.assigner import Assigner
from penstock.table.meta.paths import POSTPONE_BUCKET
from penstock.table.options.buckets import DYNAMIC_BUCKET_INITIAL_BUCKETS, DYNAMIC_BUCKET_MAX_BUCKETS

UNASSIGNED = -1  # the bucket of a key that no bucket contains yet; the write task assigns one


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """Rows of one batch for one bucket, or rows with new keys for one writer."""

    partition: bytes
    bucket: int
    writer: int
    rows: npt.NDArray[np.int64]


class Router:
    """Routes the rows of one table at one version. All tasks of a batch route a key the same way."""

    def __init__(self, warehouse: CatalogSettings, table: str, version: TargetVersion, writers: int) -> None:
        self.layout = warehouse.layout(table, version.schema)
        self.version = version
        # Without it, the single buckets of all small tables would be written by the same task.
        self._salt = zlib.crc32(table.encode())
        self._writers = writers
        self._known: Assigner | None = None
        self._table = table
        if self.layout.mode is BucketMode.DYNAMIC:
            store = warehouse.store(table)
            # Read tasks only look keys up. New keys are assigned by the write tasks, each in its own buckets.
            self._known = Assigner(store, self.layout, state_at(store, version))

    def parts(self, batch: pa.RecordBatch, ranges: int | Int64s) -> Iterator[RoutedRows]:
        """Yield the parts of a batch. `ranges` is the number of its range, or the range number of each row."""
        if self._known is not None:
            yield from self._dynamic(batch, self._known)
            return
        if self.layout.mode in {BucketMode.CROSS_PARTITION, BucketMode.POSTPONE}:
            yield from self._by_key(batch)
            return
        if self.layout.mode is BucketMode.UNAWARE:
            yield from self._by_range(batch, ranges)
            return
        for part in route(self.layout, batch):
            yield RoutedRows(part.partition, part.bucket, self._writer(part.partition, part.bucket), part.rows)

    def _writer(self, partition: bytes, bucket: int) -> int:
        """Return the writer of a bucket.

        Neighbouring buckets get neighbouring writers; partitions and tables with a single bucket are spread.
        """
        return (zlib.crc32(partition, self._salt) + bucket) % self._writers

    def _by_range(self, batch: pa.RecordBatch, ranges: int | Int64s) -> Iterator[RoutedRows]:
        """Send rows without a key, whose order does not matter, to the writers by their ranges.

        The writer of a row must not depend on the ranges that were read together with its own. A task whose blobs were
        lost is run again, in a process that may join other ranges, while some writers have the blobs of its first run.
        """
        for part in route(self.layout, batch):
            first = self._writer(part.partition, part.bucket)
            if isinstance(ranges, int):
                yield RoutedRows(part.partition, part.bucket, (first + ranges) % self._writers, part.rows)
                continue
            writers = (first + ranges[part.rows]) % self._writers
            for writer in np.unique(writers).tolist():
                yield RoutedRows(part.partition, part.bucket, writer, part.rows[writers == writer])

    def _by_key(self, batch: pa.RecordBatch) -> Iterator[RoutedRows]:
        """Send all rows of a key to one task, also if they are in several partitions.

        For postponed buckets this keeps their order in the task's files; where keys move, the next step finds their
        places.
        """
        if self.layout.mode is BucketMode.CROSS_PARTITION:
            partitions, places = [b""], np.zeros(batch.num_rows, np.int64)
        else:
            partitions, places = partitions_of(self.layout, batch)
        hashes = key_hashes(self.layout, batch, self.layout.schema.trimmed_primary_keys)
        # int64, because the sum with the salt exceeds int32. np.mod is never negative here, also for negative hashes.
        writers = np.mod(hashes.astype(np.int64) + self._salt, self._writers).astype(np.int32)
        bucket = UNASSIGNED if self.layout.mode is BucketMode.CROSS_PARTITION else POSTPONE_BUCKET
        for part in slices(partitions, places, writers):
            yield RoutedRows(part.partition, bucket, part.bucket, part.rows)

    def _dynamic(self, batch: pa.RecordBatch, known: Assigner) -> Iterator[RoutedRows]:
        """Send a key with a bucket to that bucket's writer, and a new key to a writer chosen by its hash."""
        hashes = key_hashes(self.layout, batch, self.layout.schema.trimmed_primary_keys)
        partitions, places = partitions_of(self.layout, batch)
        buckets = np.empty(batch.num_rows, np.int32)
        for number, partition in enumerate(partitions):
            rows = slice(None) if len(partitions) == 1 else places == number
            buckets[rows] = known.known(partition, hashes[rows])
        # New keys get negative numbers, one per writer, so that a single pass cuts both kinds.
        new = buckets < 0
        buckets[new] = -1 - self._openers(hashes[new])
        for part in slices(partitions, places, buckets):
            if part.bucket < 0:
                yield RoutedRows(part.partition, UNASSIGNED, -1 - part.bucket, part.rows)
            else:
                writer = bucket_writer(self._table, part.bucket, self._writers)
                yield RoutedRows(part.partition, part.bucket, writer, part.rows)

    def _openers(self, hashes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the writer that assigns a bucket to each new key.

        Each such writer opens its own bucket, so their number is limited by the table's options.
        """
        options = self.layout.schema.typed
        first = options.get(DYNAMIC_BUCKET_INITIAL_BUCKETS, self._writers)
        most = options[DYNAMIC_BUCKET_MAX_BUCKETS]
        # One writer at least, and no more than there may be buckets: each opens one.
        spread = max(1, min(first, self._writers if most < 0 else most, self._writers))
        own = np.mod(hashes.astype(np.int64), spread)
        return np.asarray(np.mod(own + self._salt, self._writers), np.int32)


def bucket_writer(table: str, bucket: int, writers: int) -> int:
    """Return the task that writes a dynamic bucket."""
    return (zlib.crc32(table.encode()) + bucket) % writers


def own_number(table: str, writer: int, writers: int) -> int:
    """Return the remainder, modulo `writers`, of the numbers of the dynamic buckets that belong to a write task."""
    return (writer - zlib.crc32(table.encode())) % writers
