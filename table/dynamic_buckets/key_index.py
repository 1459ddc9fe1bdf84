"""Where each key of a cross-partition table lies: an index on local disk, made from the table and from nothing else.

It stands for one snapshot, and comes to a later one by reading the keys of the files that were added in between. It may
vanish at any time. Nothing is written to it before a commit: what a writer does meanwhile, it keeps for itself.
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
from penstock.table.schema.options import Options
from penstock.table.values.fingerprints import Fingerprints

log = logging.getLogger(__name__)

VERSION = 1
FILE, LOCK = "index.json", "lock"
MOST_BYTES = "penstock.key-index.max-disk-size"
_MOST_RUNS = 8
# Runs beside the base are merged into it when they are a tenth of it, so each key is moved about ten times.
_SHARE, _LEAST_ROWS = 10, 1 << 16


@dataclass(slots=True)
class KeyIndex:
    """`partitions` by number, None where a partition was overwritten since; `counts` of keys by place; `runs` older
    first. `ttl_seconds`: keys that came to their place longer ago are not known any more.
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
        """A new partition gets the next number."""
        number = self._numbers.setdefault(partition, len(self.partitions))
        if number == len(self.partitions):
            self.partitions.append(partition)
        return number

    def find(self, keys: Fingerprints, now_second: int) -> Ints:
        """The place of each key, UNKNOWN where it has none."""
        found = find_places(list(self.runs.values()), keys, self._oldest(now_second))
        gone = np.array([partition is None for partition in self.partitions], np.bool_)
        if gone.any():
            known = found != UNKNOWN
            found[known] = np.where(gone[partition_of(found[known])], UNKNOWN, found[known])
        return found

    def _oldest(self, now_second: int) -> int:
        return 0 if self.ttl_seconds is None else now_second - self.ttl_seconds

    def forget(self, partitions: set[bytes]) -> None:
        """What lies in these partitions, in one stroke."""
        for partition in partitions & self._numbers.keys():
            self.partitions[self._numbers.pop(partition)] = None
        dead = {number for number, partition in enumerate(self.partitions) if partition is None}
        self.counts = {place: count for place, count in self.counts.items() if place >> 16 not in dead}

    def count(self, places: Ints, sign: int) -> None:
        for place, rows in zip(*np.unique(places, return_counts=True), strict=True):
            self.counts[int(place)] = max(0, self.counts.get(int(place), 0) + sign * int(rows))


def find_places(runs: Sequence[KeyRun], keys: Fingerprints, oldest: int = 0) -> Ints:
    """Through runs that are given older first; keys whose stamp lies before `oldest` are unknown."""
    places = np.full(len(keys.high), UNKNOWN, np.int64)
    left = np.argsort(keys.high)  # neighbours in the index are looked for together
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
    return private_folder("keys")


@dataclass(slots=True)
class IndexFolder:
    """The index of one table as all processes of a user on this machine share it; one at a time brings it forward."""

    store: TableStore
    layout: Layout
    home: Path | None = None

    @property
    def folder(self) -> Path:
        branch = hashlib.sha256((self.store.paths.branch or "").encode()).hexdigest()[:8]
        return (self.home or default_folder()) / f"{_name_of(self.store.paths.root)}-{branch}"

    def at(self, snapshot: Snapshot | None) -> KeyIndex:
        """The index at this snapshot, or at a later one that somebody brought it to.

        Reads what was added since the last time; the whole table where there is no index, or its snapshot is gone.
        Dies half way: what stood there before still stands, and half a run is swept by the next who comes.
        """
        if snapshot is None:
            return KeyIndex()
        with self._locked():
            index = self._loaded()
            if index is not None and index.snapshot >= snapshot.id:
                os.utime(self.folder / FILE)  # what was used last goes last
                return index
            advance = _Advance(self.store, self.layout, self.folder)
            missed = None if index is None else self._missed(index, snapshot)
            if index is None or missed is None:
                index = advance.bootstrapped(snapshot)
            else:
                advance.over(index, missed)
            index.snapshot, index.delta = snapshot.id, snapshot.delta_manifest_list
            self._save(index)
        make_room(self.folder, Options(self.layout.schema.options).size(MOST_BYTES, None))
        return index

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _loaded(self) -> KeyIndex | None:
        """None when there is none, or when it is of a snapshot that the table does not have (any more)."""
        try:
            head: dict[str, Any] = json.loads((self.folder / FILE).read_text())
            if head["version"] != VERSION or head["keys"] != self._keys:
                return None
            runs = {name: KeyRun.mapped(self.folder / name) for name in head["runs"]}
        except (OSError, ValueError, KeyError):  # what a dying machine left behind
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
        """The snapshots after the index's own; None when one of them has expired."""
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
                shutil.rmtree(path, ignore_errors=True)  # those who map it keep it


def _name_of(root: str) -> str:
    return hashlib.sha256(root.encode()).hexdigest()[:24]


def forget_keys(root: str, home: Path | None = None) -> None:
    """Remove the indexes of a table that is dropped, and of its branches; on other machines they are evicted."""
    for folder in (home or default_folder()).glob(f"{_name_of(root)}-*"):
        _empty(folder)


def make_room(newest: Path, most: int | None) -> None:
    """Remove indexes beside `newest`, those used least lately first, until all together take no more than `most`
    bytes; None: a tenth of what the disk has free. A writer that stands on one keeps it; the next makes it anew."""
    used: dict[Path, tuple[float, int]] = {}
    for folder in newest.parent.iterdir():
        with suppress(OSError):  # somebody else was faster
            last = (folder / FILE).stat().st_mtime
            used[folder] = last, sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    room = shutil.disk_usage(newest.parent).free // 10 if most is None else most
    total = sum(size for _, size in used.values())
    for folder in sorted(used, key=lambda one: used[one]):
        if total > room and folder != newest and _empty(folder):
            log.info("event=keys_evicted folder=%s bytes=%d", folder.name, used[folder][1])
            total -= used[folder][1]


def _empty(folder: Path) -> bool:
    """Whether nobody was at it. The lock stays: were it made anew, two could hold one each."""
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
    store: TableStore
    layout: Layout
    folder: Path

    def bootstrapped(self, snapshot: Snapshot) -> KeyIndex:
        index = KeyIndex()
        self._read(index, snapshot, None)
        log.info("event=keys_indexed table=%s snapshot=%d keys=%d", self.store.name, snapshot.id, len(index))
        return index

    def over(self, index: KeyIndex, missed: Sequence[Snapshot]) -> None:
        """Overwritten partitions are read anew, of the others what was added; compactions move no key."""
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
        """As one more run: keys that come, and keys that come elsewhere. One that stays where it is adds nothing."""
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
        """Few runs, the oldest by far the largest: a lookup costs a search in each."""
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
        # A dead entry of a younger run still has to hide what an older run says of its key.
        whole = names[0] == next(iter(index.runs))
        kept = (_living(piece, gone, oldest) if whole else piece for piece in pieces)
        run = write_run(self.folder / made, kept)
        index.runs = {name: old for name, old in index.runs.items() if name not in names} | {made: run}


def _living(run: KeyRun, gone: Any, oldest: int) -> KeyRun:
    return run[~gone[partition_of(run.places)] & (run.stamps >= oldest)] if len(run) else EMPTY
