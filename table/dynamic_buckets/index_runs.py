"""Sorted arrays of keys with the place of each, in memory or mapped from local disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.table.values.buffers import Ints, Words
from penstock.table.values.fingerprints import Fingerprints

Stamps = npt.NDArray[np.uint32]

UNKNOWN = -1
_COLUMNS = (("high", np.uint64), ("low", np.uint64), ("place", np.int64), ("stamp", np.uint32))
# 28 bytes per key.
_RECORD = np.dtype([(name, np.dtype(kind)) for name, kind in _COLUMNS])
# Large sets of keys are split into shards by their first bits; each shard is sorted or merged separately.
_SHARD_BITS = 6
_HELD_ROWS = 1 << 20


def places_of(partitions: Ints, buckets: npt.NDArray[Any]) -> Ints:
    """Return buckets of partitions as single numbers; the index numbers the partitions."""
    # Bucket numbers end at 32,766 and fit into 16 bits.
    return (partitions << np.int64(16)) | buckets.astype(np.int64)


def partition_of(places: Ints) -> Ints:
    """Return the partition numbers of places."""
    return places >> np.int64(16)


def bucket_of(places: Ints) -> Ints:
    """Return the buckets of places."""
    return places & np.int64(0xFFFF)


@dataclass(frozen=True, slots=True)
class KeyRun:
    """Distinct keys in order, with the place of each and the second since it is there.

    `stamp` 0 means that it was deleted.
    """

    high: Words
    low: Words
    places: Ints
    stamps: Stamps

    def __len__(self) -> int:
        return len(self.high)

    def __getitem__(self, rows: Any) -> KeyRun:
        return KeyRun(self.high[rows], self.low[rows], self.places[rows], self.stamps[rows])

    @classmethod
    def of(cls, keys: Fingerprints, places: Ints, second: int) -> KeyRun:
        """Return a run of keys that are not sorted yet."""
        return cls(keys.high, keys.low, places, np.full(len(places), second, np.uint32))

    @classmethod
    def mapped(cls, folder: Path) -> KeyRun:
        """Return the run in a folder, mapped into memory."""
        arrays = [_mapped(folder / name, kind) for name, kind in _COLUMNS]
        return cls(*arrays)

    def find(self, keys: Fingerprints) -> Ints:
        """Return the row of each key, -1 if it is not in the run. Fastest for keys in order."""
        found = np.full(len(keys.high), -1, np.int64)
        at = np.searchsorted(self.high, keys.high)
        left = np.arange(len(keys.high))
        while len(left):  # repeats only if two keys share their upper half
            left = left[at[left] < len(self.high)]
            left = left[self.high[at[left]] == keys.high[left]]
            hit = self.low[at[left]] == keys.low[left]
            found[left[hit]] = at[left[hit]]
            left = left[~hit]
            at[left] += 1
        return found

    def range(self, shard: int) -> KeyRun:
        """Return a view of the keys whose first bits are `shard`."""
        first, behind = np.uint64(shard << (64 - _SHARD_BITS)), np.uint64((1 << (64 - _SHARD_BITS)) - 1)
        # The upper end is inclusive: the first number behind the last shard would need 65 bits.
        begin = np.searchsorted(self.high, first)
        return self[begin : np.searchsorted(self.high, first | behind, side="right")]


EMPTY = KeyRun(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.uint32))


def _mapped(path: Path, kind: Any) -> npt.NDArray[Any]:
    # An empty file cannot be mapped.
    return np.memmap(path, kind, "r") if path.stat().st_size else np.empty(0, kind)


def key_order(keys: Fingerprints | KeyRun) -> tuple[Ints, Ints]:
    """Return the rows in key order, rows of a key in their original order, and where each key starts."""
    order = np.argsort(keys.high, kind="stable")
    high, low = keys.high[order], keys.low[order]
    same = high[1:] == high[:-1]
    if (same & (low[1:] != low[:-1])).any():  # almost never: two keys share their upper half
        order = np.lexsort((keys.low, keys.high))
        high, low = keys.high[order], keys.low[order]
        same = high[1:] == high[:-1]
    other = ~same | (low[1:] != low[:-1])
    starts = np.append(np.zeros(min(len(order), 1), np.int64), np.flatnonzero(other) + 1)
    return order, starts


def united(runs: Sequence[KeyRun]) -> KeyRun:
    """Return the keys of all runs in order; the last entry of a key counts."""
    together = joined(runs)
    order, starts = key_order(together)
    return together[order[np.append(starts[1:], len(order)) - 1]] if len(order) else EMPTY


def joined(runs: Sequence[KeyRun]) -> KeyRun:
    """Return the runs concatenated."""
    if len(runs) == 1:
        return runs[0]
    # EMPTY determines the types if there are no runs.
    columns = [(run.high, run.low, run.places, run.stamps) for run in (EMPTY, *runs)]
    return KeyRun(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))


def settled(run: KeyRun, *, with_deleted: bool = False) -> KeyRun:
    """Return the final place of each key, from rows of several buckets in order of arrival in each bucket.

    A key that was deleted in one place was moved to another: only the place whose last row added the key counts.
    A key without such a place was deleted; `with_deleted` returns it with stamp 0.
    """
    if (run.stamps > 0).all():
        return united([run])
    last = _last_in_places(run)
    added = last[last.stamps > 0]
    return united([last[last.stamps == 0], added] if with_deleted else [added])


def in_several_places(run: KeyRun) -> int:
    """Return the number of keys that are in several places, from rows in order of arrival in each place."""
    if len(united([run])) == len(run):
        return 0
    last = _last_in_places(run)
    added = last[last.stamps > 0]
    return len(added) - len(united([added]))


def _last_in_places(run: KeyRun) -> KeyRun:
    """Return the last row of each key in each place, ordered by key, then by place."""
    # The sort is stable, so the last row of a key in a place is the last that arrived there.
    run = run[np.lexsort((run.places, run.low, run.high))]
    last = np.ones(len(run), np.bool_)
    last[:-1] = (run.high[1:] != run.high[:-1]) | (run.low[1:] != run.low[:-1]) | (run.places[1:] != run.places[:-1])
    return run[last]


def merged_pieces(runs: Sequence[KeyRun]) -> Iterator[KeyRun]:
    """Yield all runs merged, piece by piece in key order; a piece is in memory at a time."""
    if sum(map(len, runs)) <= _HELD_ROWS:
        yield united(runs)
        return
    for shard in range(1 << _SHARD_BITS):
        yield united([run.range(shard) for run in runs])


def write_run(folder: Path, pieces: Iterable[KeyRun]) -> KeyRun:
    """Write pieces in key order to a new folder, and return them mapped into memory."""
    folder.mkdir(parents=True)
    files = [(folder / name).open("wb") for name, _ in _COLUMNS]
    try:
        for piece in pieces:
            for file, array in zip(files, (piece.high, piece.low, piece.places, piece.stamps), strict=True):
                np.ascontiguousarray(array).tofile(file)
    finally:
        for file in files:
            file.close()
    return KeyRun.mapped(folder)


def _records(run: KeyRun) -> npt.NDArray[np.void]:
    rows = np.empty(len(run), _RECORD)
    arrays = (run.high, run.low, run.places, run.stamps)
    for (name, _), array in zip(_COLUMNS, arrays, strict=True):
        rows[name] = array
    return rows


def _columns(rows: npt.NDArray[Any]) -> KeyRun:
    return KeyRun(*(np.ascontiguousarray(rows[name]) for name, _ in _COLUMNS))


class Shards:
    """Any number of keys while they are read.

    Keys that exceed the memory limit are written to files by their first bits.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: list[KeyRun] = []
        self._rows = 0
        self._spilled = False

    def add(self, run: KeyRun) -> None:
        """Add keys in order of arrival."""
        self._held.append(run)
        self._rows += len(run)
        if self._rows >= _HELD_ROWS:
            self._spill()

    def pieces(self) -> Iterator[KeyRun]:
        """Yield the rows of neighbouring keys piece by piece, in order of arrival."""
        if not self._spilled:
            yield joined(self._held)
            return
        self._spill()
        for shard in range(1 << _SHARD_BITS):
            path = self._path(shard)
            if path.exists():
                yield _columns(np.fromfile(path, _RECORD))
                path.unlink()

    def _spill(self) -> None:
        together = joined(self._held)
        self._held, self._rows, self._spilled = [], 0, True
        shards = (together.high >> np.uint64(64 - _SHARD_BITS)).astype(np.uint8)
        # Stable, and files are appended to, so that the rows of a key stay in order of arrival.
        order = np.argsort(shards, kind="stable")
        rows = _records(together[order])
        ends = np.cumsum(np.bincount(shards, minlength=1 << _SHARD_BITS))
        for shard, end in enumerate(ends.tolist()):
            begin = int(ends[shard - 1]) if shard else 0
            if end > begin:
                with self._path(shard).open("ab") as file:
                    rows[begin:end].tofile(file)

    def _path(self, shard: int) -> Path:
        return self._folder / f"shard-{shard}"
