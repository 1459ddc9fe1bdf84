"""Bringing an index of keys to a later snapshot, by reading the keys of the files added since."""

from __future__ import annotations

import logging
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.table.buckets.layout import Layout
from penstock.table.dynamic_buckets.index_build import TableKeys, touched
from penstock.table.dynamic_buckets.index_runs import (
    EMPTY,
    UNKNOWN,
    KeyRun,
    Shards,
    merged_pieces,
    partition_of,
    settled,
    united,
    write_run,
)
from penstock.table.dynamic_buckets.key_index import KeyIndex
from penstock.table.meta.live import delta_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.values.fingerprints import Fingerprints

log = logging.getLogger(__name__)

_MOST_RUNS = 8
# Other runs are merged into the base once they are a tenth of its size, so each key is copied about ten times.
_SHARE, _LEAST_ROWS = 10, 1 << 16


@dataclass(slots=True)
class IndexAdvance:
    """Brings an index to a later snapshot."""

    store: TableStore
    layout: Layout
    folder: Path

    def bootstrapped(self, snapshot: Snapshot) -> KeyIndex:
        """Return an index built from the whole table."""
        index = KeyIndex()
        self._read(index, snapshot, None)
        log.info("event=keys_indexed table=%s snapshot=%d keys=%d", self.store.name, snapshot.id, len(index))
        return index

    def over(self, index: KeyIndex, missed: Sequence[Snapshot]) -> None:
        """Advance the index over the missed snapshots.

        Overwritten partitions are read again, for the others only added files; compactions move no key.
        """
        newest = missed[-1]
        rewritten = set[bytes]()
        for snapshot in missed:
            if snapshot.commit_kind is CommitKind.OVERWRITE:
                rewritten |= touched(delta_entries(self.store, snapshot))
        index.forget(rewritten)
        keys = TableKeys(self.store, self.layout, index.number)
        for snapshot in missed:
            if snapshot.commit_kind is CommitKind.APPEND:
                with self._shards() as shards:
                    for run in keys.added(snapshot, rewritten):
                        shards.add(run)
                    self._add(index, (settled(piece) for piece in shards.pieces()), keys.second)
        if rewritten:
            self._read(index, newest, rewritten)
        self._tidy(index, keys.second)

    def _read(self, index: KeyIndex, snapshot: Snapshot, partitions: set[bytes] | None) -> None:
        keys = TableKeys(self.store, self.layout, index.number)
        with self._shards() as shards:
            read = 0
            for run in keys.visible(snapshot, partitions):
                shards.add(run)
                read += len(run)
            before = len(index)
            self._add(index, (united([piece]) for piece in shards.pieces()), keys.second)
        if partitions is None and len(index) - before < read:
            log.warning("event=keys_in_two_partitions table=%s keys=%d", self.store.name, read - len(index) + before)

    @contextmanager
    def _shards(self) -> Iterator[Shards]:
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="shards-") as folder:
            yield Shards(Path(folder))

    def _add(self, index: KeyIndex, pieces: Iterator[KeyRun], second: int) -> None:
        """Add a run of new and of moved keys. A key that keeps its place adds nothing."""
        name = uuid.uuid4().hex
        run = write_run(self.folder / name, self._new(index, pieces, second))
        if len(run):
            index.runs[name] = run

    def _new(self, index: KeyIndex, pieces: Iterator[KeyRun], second: int) -> Iterator[KeyRun]:
        for piece in pieces:
            old = (
                index.find(Fingerprints(piece.high, piece.low), second) if index.runs else np.full(len(piece), UNKNOWN)
            )
            other = old != piece.places
            index.count(old[other & (old != UNKNOWN)], -1)
            index.count(piece.places[other], 1)
            yield piece[other]

    def _tidy(self, index: KeyIndex, second: int) -> None:
        """Merge runs so that there are few, and the oldest is by far the largest: a lookup searches each of them."""
        names = list(index.runs)
        young = sum(len(index.runs[name]) for name in names[1:])
        if young > len(index.runs[names[0]]) // _SHARE + _LEAST_ROWS if names else False:
            self._merge(index, names, second)
        elif len(names) > _MOST_RUNS:
            self._merge(index, names[1:], second)

    def _merge(self, index: KeyIndex, names: list[str], second: int) -> None:
        made = uuid.uuid4().hex
        gone = np.array([partition is None for partition in index.partitions] or [False], np.bool_)
        oldest = 0 if index.ttl_seconds is None else second - index.ttl_seconds
        pieces = merged_pieces([index.runs[name] for name in names])
        # A dead entry of a younger run must still hide the entry of its key in an older run.
        whole = names[0] == next(iter(index.runs))
        kept = (_living(piece, gone, oldest) if whole else piece for piece in pieces)
        run = write_run(self.folder / made, kept)
        index.runs = {name: old for name, old in index.runs.items() if name not in names} | {made: run}


def _living(run: KeyRun, gone: Any, oldest: int) -> KeyRun:
    return run[~gone[partition_of(run.places)] & (run.stamps >= oldest)] if len(run) else EMPTY
