"""The index of the places of a cross-partition table's keys, on local disk, built only from the table itself.

An index belongs to one snapshot, and advances to a later one by reading the keys of the files added in between. It may
be deleted at any time. A writer does not change it before its commit; keys it places meanwhile are kept in the writer.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from penstock.storage.private_folder import private_folder
from penstock.table.buckets.layout import Layout
from penstock.table.dynamic_buckets.index_build import TableKeys, touched
from penstock.table.dynamic_buckets.index_runs import (
    EMPTY,
    UNKNOWN,
    Ints,
    KeyRun,
    Shards,
    merged_pieces,
    partition_of,
    settled,
    united,
    write_run,
)
from penstock.table.meta.live import delta_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.buckets import PENSTOCK_KEY_INDEX_MAX_DISK_SIZE
from penstock.table.values.fingerprints import Fingerprints

log = logging.getLogger(__name__)

VERSION = 1
FILE, LOCK = "index.json", "lock"
MOST_BYTES = "penstock.key-index.max-disk-size"
_MOST_RUNS = 8
# Other runs are merged into the base once they are a tenth of its size, so each key is copied about ten times.
_SHARE, _LEAST_ROWS = 10, 1 << 16


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
        self._numbers = {one: number for number, one in enumerate(self.partitions) if one is not None}

    def __len__(self) -> int:
        return sum(map(len, self.runs.values()))

    def number(self, partition: bytes) -> int:
        """Return the number of a partition; a new partition gets the next number."""
        number = self._numbers.setdefault(partition, len(self.partitions))
        if number == len(self.partitions):
            self.partitions.append(partition)
        return number

    def find(self, keys: Fingerprints, now_second: int) -> Ints:
        """Return the place of each key, UNKNOWN if it has none."""
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
        for partition in partitions & self._numbers.keys():
            self.partitions[self._numbers.pop(partition)] = None
        dead = {number for number, partition in enumerate(self.partitions) if partition is None}
        self.counts = {place: count for place, count in self.counts.items() if place >> 16 not in dead}

    def count(self, places: Ints, sign: int) -> None:
        """Add or subtract the number of keys in each place."""
        for place, rows in zip(*np.unique(places, return_counts=True), strict=True):
            self.counts[int(place)] = max(0, self.counts.get(int(place), 0) + sign * int(rows))


def find_places(runs: Sequence[KeyRun], keys: Fingerprints, oldest: int = 0) -> Ints:
    """Return the places of keys in runs, which are given older first; keys with a stamp before `oldest` are unknown."""
    places = np.full(len(keys.high), UNKNOWN, np.int64)
    left = np.argsort(keys.high)  # sorted, so that neighbouring keys of the index are searched together
    for run in reversed(runs):
        rows = run.find(Fingerprints(keys.high[left], keys.low[left]))
        hit = rows >= 0
        young = run.stamps[rows[hit]] >= oldest
        places[left[hit]] = np.where(young, run.places[rows[hit]], UNKNOWN)
        left = left[~hit]
        if len(left) == 0:
            break
    return places


def default_folder() -> Path:
    """Return the folder of key indexes on this machine."""
    return private_folder("keys")


@dataclass(slots=True)
class IndexFolder:
    """The index of one table, shared by all processes of a user on this machine; one process at a time advances it."""

    store: TableStore
    layout: Layout
    home: Path | None = None

    @property
    def folder(self) -> Path:
        """Return the folder of the table's index."""
        branch = hashlib.sha256((self.store.paths.branch or "").encode()).hexdigest()[:8]
        return (self.home or default_folder()) / f"{_name_of(self.store.paths.root)}-{branch}"

    def at(self, snapshot: Snapshot | None) -> KeyIndex:
        """Return the index at this snapshot, or at a later one to which another process advanced it.

        Reads the files added since; reads the whole table if no index exists, or if its snapshot expired. If the
        process dies half way, the previous index remains valid, and the next process deletes incomplete runs.
        """
        if snapshot is None:
            return KeyIndex()
        with self._locked():
            index = self._loaded()
            if index is not None and index.snapshot >= snapshot.id:
                os.utime(self.folder / FILE)  # least recently used indexes are evicted first
                return index
            advance = _Advance(self.store, self.layout, self.folder)
            missed = None if index is None else self._missed(index, snapshot)
            if index is None or missed is None:
                index = advance.bootstrapped(snapshot)
            else:
                advance.over(index, missed)
            index.snapshot, index.delta = snapshot.id, snapshot.delta_manifest_list
            self._save(index)
        make_room(self.folder, self.layout.schema.typed[PENSTOCK_KEY_INDEX_MAX_DISK_SIZE])
        return index

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _loaded(self) -> KeyIndex | None:
        """Return the index, or None if it does not exist or the table does not have its snapshot (any more)."""
        try:
            head: dict[str, Any] = json.loads((self.folder / FILE).read_text())
            if head["version"] != VERSION or head["keys"] != self._keys:
                return None
            runs = {name: KeyRun.mapped(self.folder / name) for name in head["runs"]}
        except (OSError, ValueError, KeyError):  # files that were incomplete when the machine died
            return None
        standing = self.store.snapshots.find(head["snapshot"])
        if standing is None or standing.delta_manifest_list != head["delta"]:
            return None
        partitions = [None if text is None else bytes.fromhex(text) for text in head["partitions"]]
        counts = {int(place): rows for place, rows in head["counts"].items()}
        return KeyIndex(head["snapshot"], head["delta"], partitions, counts, runs, self._ttl)

    @property
    def _keys(self) -> list[str]:
        return [f"{field.id} {field.type}" for field in self.layout.key_fields]

    @property
    def _ttl(self) -> int | None:
        ttl = TableKeys(self.store, self.layout, lambda _: 0).ttl_millis
        return None if ttl is None else ttl // 1000

    def _missed(self, index: KeyIndex, snapshot: Snapshot) -> list[Snapshot] | None:
        """Return the snapshots after the index's snapshot; None if any of them has expired."""
        missed = [self.store.snapshots.find(number) for number in range(index.snapshot + 1, snapshot.id)]
        return None if None in missed else [one for one in (*missed, snapshot) if one is not None]

    def _save(self, index: KeyIndex) -> None:
        index.ttl_seconds = self._ttl
        head = {
            "version": VERSION,
            "keys": self._keys,
            "snapshot": index.snapshot,
            "delta": index.delta,
            "partitions": [None if partition is None else partition.hex() for partition in index.partitions],
            "counts": index.counts,
            "runs": list(index.runs),
        }
        half = self.folder / f".{FILE}"
        half.write_text(json.dumps(head))
        half.replace(self.folder / FILE)
        for path in self.folder.iterdir():
            if path.is_dir() and path.name not in index.runs:
                shutil.rmtree(path, ignore_errors=True)  # processes that have mapped it can still read it


def _name_of(root: str) -> str:
    return hashlib.sha256(root.encode()).hexdigest()[:24]


def forget_keys(root: str, home: Path | None = None) -> None:
    """Delete the indexes of a dropped table and of its branches; other machines evict theirs in time."""
    for folder in (home or default_folder()).glob(f"{_name_of(root)}-*"):
        _empty(folder)


def make_room(newest: Path, most: int | None) -> None:
    """Delete indexes other than `newest`, least recently used first, until all together use at most `most` bytes.

    None is a tenth of the free disk space. A writer that uses a deleted index can finish; the next one builds it again.
    """
    used: dict[Path, tuple[float, int]] = {}
    for folder in newest.parent.iterdir():
        with suppress(OSError):  # another process deleted it
            last = (folder / FILE).stat().st_mtime
            used[folder] = last, sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    room = shutil.disk_usage(newest.parent).free // 10 if most is None else most
    total = sum(size for _, size in used.values())
    for folder in sorted(used, key=lambda one: used[one]):
        if total > room and folder != newest and _empty(folder):
            log.info("event=keys_evicted folder=%s bytes=%d", folder.name, used[folder][1])
            total -= used[folder][1]


def _empty(folder: Path) -> bool:
    """Delete an index and return True, or return False if it is in use.

    The lock file is kept: if it were created again, two processes could each have a lock.
    """
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink(missing_ok=True)
    return True


@dataclass(slots=True)
class _Advance:
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
