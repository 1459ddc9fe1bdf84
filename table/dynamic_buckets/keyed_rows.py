"""The rows of a cross-partition table: grouped by their keys before they are placed, with their buckets afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.row_kinds import RowKinds
from penstock.table.buckets.layout import Layout
from penstock.table.buckets.route import partitions_of
from penstock.table.dynamic_buckets.index_runs import key_order
from penstock.table.values.buffers import Ints
from penstock.table.values.fingerprints import Fingerprints, fingerprints

Number = Callable[[bytes], int]

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """A batch grouped by key: `order` has the rows of each key in order of arrival, `starts` is where each key begins.

    `keys` are the distinct keys.
    """

    rows: pa.RecordBatch
    kinds: RowKinds
    partitions: Ints  # the number of each row's partition
    order: Ints
    starts: Ints
    keys: Fingerprints

    @classmethod
    def of(cls, layout: Layout, rows: pa.RecordBatch, kinds: RowKinds, number: Number) -> KeyedRows:
        """Return a batch grouped by key."""
        partitions, places = partitions_of(layout, rows)
        numbers = np.array([number(partition) for partition in partitions], np.int64)[places]
        keys = key_fingerprints(layout, rows)
        order, starts = key_order(keys)
        first = order[starts]
        return cls(rows, kinds, numbers, order, starts, Fingerprints(keys.high[first], keys.low[first]))

    def spread(self, values: Ints) -> Ints:
        """Return one value per key, repeated for each row of the key."""
        by_row = np.empty(len(self.order), np.int64)
        by_row[self.order] = np.repeat(values, np.diff(self.starts, append=len(self.order)))
        return by_row


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows with their buckets: row i is in `partitions[places[i]]` and bucket `buckets[i]`.

    Includes the deletes of moved rows.
    """

    rows: pa.RecordBatch
    kinds: RowKinds
    partitions: list[bytes]
    places: Ints
    buckets: npt.NDArray[np.int32]


def key_fingerprints(layout: Layout, rows: pa.RecordBatch) -> Fingerprints:
    """Return the fingerprints of the rows' keys."""
    fields = layout.key_fields
    return fingerprints([rows.column(field.name) for field in fields], [field.type for field in fields])


def number_pairs(keys: Ints, partitions: Ints) -> Ints:
    """Return one number for each pair of numbers."""
    return keys << np.int64(32) | partitions


def fingerprint_codes(keys: Fingerprints, numbers: Ints, partitions: Ints) -> Fingerprints:
    """Return fingerprints of keys, given by number, together with partitions."""
    return Fingerprints(keys.high[numbers], keys.low[numbers] ^ (partitions.astype(np.uint64) * _MIX))
