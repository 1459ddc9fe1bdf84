"""The partition and the bucket of each row of a batch, computed column by column."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.meta.data_file import EMPTY_ROW
from penstock.table.meta.paths import POSTPONE_BUCKET
from penstock.table.values.binary_row import encode_rows
from penstock.table.values.hashing import bucket_rows, hash_rows

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of a batch that belong to one bucket, in order of arrival."""

    partition: bytes
    bucket: int
    rows: Indices


def partitions_of(layout: Layout, batch: pa.RecordBatch) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """Return the distinct partitions of a batch as BinaryRows, and the index of each row's partition among them."""
    if not layout.schema.partition_keys:
        return [EMPTY_ROW], np.zeros(batch.num_rows, np.int64)
    columns = [batch.column(name) for name in layout.schema.partition_keys]
    codes = np.zeros(batch.num_rows, np.int64)
    for column in columns:
        # Null is encoded as a value: null, empty and blank texts are different partitions, although they share a
        # folder.
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    distinct = encode_rows([column.take(pa.array(first)) for column in columns], layout.partition_types)
    # A stored BinaryRow begins with its number of columns.
    prefix = struct.pack(">i", len(columns))
    return [prefix + distinct[i] for i in range(len(first))], inverse.astype(np.int64, copy=False)


def buckets_of(layout: Layout, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
    """Return the bucket of every row. ConfigError for dynamic buckets, which are assigned by an index, not computed."""
    match layout.mode:
        case BucketMode.UNAWARE:
            return np.zeros(batch.num_rows, np.int32)
        case BucketMode.POSTPONE:
            return np.full(batch.num_rows, POSTPONE_BUCKET, np.int32)
        case BucketMode.FIXED if layout.bucket_count == 1:
            return np.zeros(batch.num_rows, np.int32)
        case BucketMode.FIXED:
            fields = layout.schema.select(layout.bucket_keys)
            columns = [batch.column(field.name) for field in fields]
            types = [field.type for field in fields]
            return bucket_rows(columns, types, layout.bucket_count, layout.bucket_function)
    raise ConfigError(f"the buckets of a {layout.mode} table are assigned by its key index, not by the row alone")


def key_hashes(layout: Layout, batch: pa.RecordBatch, names: tuple[str, ...]) -> npt.NDArray[np.int32]:
    """Return the hash of each row's values in the named columns."""
    fields = layout.schema.select(names)
    return hash_rows([batch.column(field.name) for field in fields], [field.type for field in fields])


def slices(partitions: list[bytes], places: Indices, buckets: npt.NDArray[np.int32]) -> Iterator[Slice]:
    """Yield the rows of each (partition, bucket); a stable sort keeps the order of arrival within each slice."""
    if len(places) == 0:
        return
    low = int(buckets.min())
    width = int(buckets.max()) - low + 1
    # One number per partition and bucket. The postponed bucket is -2, so buckets are counted from the least.
    codes: npt.NDArray[np.integer[Any]] = buckets - low
    if len(partitions) > 1:
        codes = places * width + codes
    if len(partitions) * width <= 1 << 16:
        codes = codes.astype(np.uint16)  # numpy radix-sorts 16-bit integers, ten times as fast
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    bounds = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, [len(ordered)]))
    for start, end in itertools.pairwise(bounds):
        code = int(ordered[start])
        yield Slice(partitions[code // width], code % width + low, order[start:end])


def route(layout: Layout, batch: pa.RecordBatch) -> Iterator[Slice]:
    """Yield the rows of each (partition, bucket) of a batch."""
    partitions, places = partitions_of(layout, batch)
    yield from slices(partitions, places, buckets_of(layout, batch))
