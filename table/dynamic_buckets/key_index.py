"""The places of a cross-partition table's keys at one snapshot, with the entries that a writer adds in memory.

Rows are grouped by their keys before they are placed, and have their buckets afterwards.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.row_kinds import RowKinds
from penstock.table.buckets.layout import Layout
from penstock.table.buckets.route import partitions_of
from penstock.table.dynamic_buckets.index_runs import (
    UNKNOWN,
    KeyRun,
    key_order,
    merged_pieces,
    partition_of,
    united,
    write_run,
)
from penstock.table.values.buffers import Ints
from penstock.table.values.fingerprints import Fingerprints, fingerprints

_MOST_RUNS = 8
_HELD_ROWS = 1 << 20


@dataclass(slots=True)
class KeyIndex:
    """The index at a snapshot: `partitions` by number, `counts` of keys by place, and `runs`, older first.

    A partition that was overwritten since is None. Keys placed more than `ttl_seconds` ago are treated as unknown.
    """

    snapshot: int = 0
    delta: str = ""
    partitions: list[bytes | None] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    runs: dict[str, KeyRun] = field(default_factory=dict)
    ttl_seconds: int | None = None
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = {partition: number for number, partition in enumerate(self.partitions) if partition is not None}

    def __len__(self) -> int:
        return sum(map(len, self.runs.values()))

    def number(self, partition: bytes) -> int:
        """Return the number of a partition; a new partition gets the next number."""
        number = self._numbers.setdefault(partition, len(self.partitions))
        if number == len(self.partitions):
            self.partitions.append(partition)
        return number

    def find(self, keys: Fingerprints, now_second: int) -> Ints:
        """Return the place of each key, UNKNOWN for keys without a place."""
        found = find_places(list(self.runs.values()), keys, self._oldest(now_second))
        gone = np.array([partition is None for partition in self.partitions], np.bool_)
        if gone.any():
            known = found != UNKNOWN
            found[known] = np.where(gone[partition_of(found[known])], UNKNOWN, found[known])
        return found

    def _oldest(self, now_second: int) -> int:
        return 0 if self.ttl_seconds is None else now_second - self.ttl_seconds

    def forget(self, partitions: set[bytes]) -> None:
        """Remove all keys of these partitions, without touching the runs."""
        # The runs are large and stay as they are. Entries of these partitions count as unknown until runs are
        # merged.
        for partition in partitions & self._numbers.keys():
            self.partitions[self._numbers.pop(partition)] = None
        dead = {number for number, partition in enumerate(self.partitions) if partition is None}
        self.counts = {place: count for place, count in self.counts.items() if place >> 16 not in dead}

    def count(self, places: Ints, sign: int) -> None:
        """Add or subtract the number of keys in each place."""
        for place, rows in zip(*np.unique(places, return_counts=True), strict=True):
            self.counts[int(place)] = max(0, self.counts.get(int(place), 0) + sign * int(rows))


def find_places(runs: Sequence[KeyRun], keys: Fingerprints, oldest: int = 0) -> Ints:
    """Return the places of keys in runs, which are given older first.

    Keys that were deleted are unknown, and those with a stamp before `oldest`.
    """
    places = np.full(len(keys.high), UNKNOWN, np.int64)
    left = np.argsort(keys.high)  # sorted, so that neighbouring keys of the index are searched together
    # The entry of a newer run replaces that of an older one, so a key is searched no further than its first hit.
    for run in reversed(runs):
        rows = run.find(Fingerprints(keys.high[left], keys.low[left]))
        hit = rows >= 0
        young = run.stamps[rows[hit]] >= max(oldest, 1)
        places[left[hit]] = np.where(young, run.places[rows[hit]], UNKNOWN)
        left = left[~hit]
        if len(left) == 0:
            break
    return places


class Overlay:
    """Keys and their places: up to a million in memory, more in a temporary folder deleted with this object."""

    def __init__(self) -> None:
        self._runs: list[KeyRun] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def find(self, keys: Fingerprints) -> Ints:
        """Return the place of each key, UNKNOWN if it is not here."""
        return find_places(self._runs, keys)

    def places(self, index: KeyIndex, second: int) -> Iterator[Ints]:
        """Yield the places that the index has for the keys placed here, run by run."""
        for run in self._runs:
            yield index.find(Fingerprints(run.high, run.low), second)

    def add(self, run: KeyRun) -> None:
        """Add distinct keys in any order. Their earlier places are replaced."""
        self._runs.append(united([run]))
        if len(self._runs) > _MOST_RUNS:
            self._runs = self._merged()

    def _merged(self) -> list[KeyRun]:
        """Return the runs merged. The largest run is left alone until the others have half as many keys."""
        first, rest = self._runs[0], self._runs[1:]
        if len(first) > _HELD_ROWS and sum(map(len, rest)) < len(first) // 2:
            return [first, united(rest)]
        if sum(map(len, self._runs)) <= _HELD_ROWS:
            return [united(self._runs)]
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="penstock-keys-")
        return [write_run(Path(self._folder.name) / uuid.uuid4().hex, merged_pieces(self._runs))]


Number = Callable[[bytes], int]

# 2 ** 64 divided by the golden ratio: a multiplication by it spreads small partition numbers over all bits.
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
    # Numbers of keys in a batch and of partitions are far below 2 ** 32.
    return keys << np.int64(32) | partitions


def fingerprint_codes(keys: Fingerprints, numbers: Ints, partitions: Ints) -> Fingerprints:
    """Return fingerprints of keys, given by number, together with partitions."""
    return Fingerprints(keys.high[numbers], keys.low[numbers] ^ (partitions.astype(np.uint64) * _MIX))
