"""Which bucket each row goes to, and which of the writing tasks that bucket belongs to in this batch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.pipelines.mapping.target_tables import Version, Warehouse, state_at
from penstock.table.buckets.layout import BucketMode
from penstock.table.buckets.route import key_hashes, partitions_of, route, slices
from penstock.table.dynamic_buckets.assigner import Assigner
from penstock.table.meta.paths import POSTPONE_BUCKET
from penstock.table.schema.options import Options

UNASSIGNED = -1  # the bucket of a key that no bucket has yet; the writing task finds one


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one batch that go to one bucket, or new keys that go to one writer."""

    partition: bytes
    bucket: int
    writer: int
    rows: npt.NDArray[np.int64]


class Router:
    """Routes one table's rows at one version of it. Every task of a batch routes a key the same way."""

    def __init__(self, warehouse: Warehouse, table: str, version: Version, writers: int) -> None:
        self.layout = warehouse.layout(table, version.schema)
        self.version = version
        self._salt = zlib.crc32(table.encode())
        self._writers = writers
        self._known: Assigner | None = None
        self._table = table
        if self.layout.mode is BucketMode.DYNAMIC:
            store = warehouse.store(table)
            self._known = Assigner(store, self.layout, state_at(store, version))

    def parts(self, batch: pa.RecordBatch, shuffle: int) -> Iterator[Part]:
        """`shuffle` spreads rows that any writer may take."""
        if self._known is not None:
            yield from self._dynamic(batch, self._known)
            return
        if self.layout.mode in {BucketMode.CROSS_PARTITION, BucketMode.POSTPONE}:
            yield from self._by_key(batch)
            return
        for part in route(self.layout, batch):
            writer = self._writer(part.partition, part.bucket, shuffle)
            yield Part(part.partition, part.bucket, writer, part.rows)

    def _writer(self, partition: bytes, bucket: int, shuffle: int) -> int:
        """Neighbouring buckets go to neighbouring writers; partitions and tables of one bucket are spread."""
        salt = zlib.crc32(partition, self._salt)
        if self.layout.mode is BucketMode.UNAWARE:  # no key, no order to keep
            salt += shuffle
        return (salt + bucket) % self._writers

    def _by_key(self, batch: pa.RecordBatch) -> Iterator[Part]:
        """All rows of a key to one task, whatever their partitions: postponed rows keep their order in its files, and
        where keys move the next step finds the places.
        """
        if self.layout.mode is BucketMode.CROSS_PARTITION:
            partitions, places = [b""], np.zeros(batch.num_rows, np.int64)
        else:
            partitions, places = partitions_of(self.layout, batch)
        hashes = key_hashes(self.layout, batch, self.layout.schema.trimmed_primary_keys)
        writers = np.mod(hashes.astype(np.int64) + self._salt, self._writers).astype(np.int32)
        bucket = UNASSIGNED if self.layout.mode is BucketMode.CROSS_PARTITION else POSTPONE_BUCKET
        for part in slices(partitions, places, writers):
            yield Part(part.partition, bucket, part.bucket, part.rows)

    def _dynamic(self, batch: pa.RecordBatch, known: Assigner) -> Iterator[Part]:
        """A key with a bucket goes to that bucket's writer, a new one to the writer its hash names."""
        hashes = key_hashes(self.layout, batch, self.layout.schema.trimmed_primary_keys)
        partitions, places = partitions_of(self.layout, batch)
        buckets = np.empty(batch.num_rows, np.int32)
        for number, partition in enumerate(partitions):
            rows = slice(None) if len(partitions) == 1 else places == number
            buckets[rows] = known.known(partition, hashes[rows])
        # New keys get numbers below zero, one for each writer, so that one pass cuts both kinds.
        new = buckets < 0
        buckets[new] = -1 - self._openers(hashes[new])
        for part in slices(partitions, places, buckets):
            if part.bucket < 0:
                yield Part(part.partition, UNASSIGNED, -1 - part.bucket, part.rows)
            else:
                writer = bucket_writer(self._table, part.bucket, self._writers)
                yield Part(part.partition, part.bucket, writer, part.rows)

    def _openers(self, hashes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The writer that finds a bucket for a new key: each opens one, and there may be only so many."""
        options = Options(self.layout.schema.options)
        first = options.integer("dynamic-bucket.initial-buckets", self._writers)
        most = options.integer("dynamic-bucket.max-buckets", -1)
        spread = max(1, min(first, self._writers if most < 0 else most, self._writers))
        own = np.mod(hashes.astype(np.int64), spread)
        return np.asarray(np.mod(own + self._salt, self._writers), np.int32)


def bucket_writer(table: str, bucket: int, writers: int) -> int:
    """The task that writes a dynamic bucket."""
    return (zlib.crc32(table.encode()) + bucket) % writers


def own_number(table: str, writer: int, writers: int) -> int:
    """Modulo `writers`, the numbers of the dynamic buckets that belong to a writing task."""
    return (writer - zlib.crc32(table.encode())) % writers
