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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.storage.private_folder import private_folder
from penstock.table.buckets.layout import Layout
from penstock.table.dynamic_buckets.index_build import IndexAdvance, TableKeys
from penstock.table.dynamic_buckets.index_runs import (
    KeyRun,
)
from penstock.table.dynamic_buckets.key_index import KeyIndex
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.buckets import PENSTOCK_KEY_INDEX_MAX_DISK_SIZE

log = logging.getLogger(__name__)

VERSION = 1
FILE, LOCK = "index.json", "lock"


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
            advance = IndexAdvance(self.store, self.layout, self.folder)
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
        # The system releases the lock when the process ends, however it ends.
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
        found = self.store.snapshots.find(head["snapshot"])
        # After a rollback the same id may belong to another snapshot, whose delta list has another name.
        if found is None or found.delta_manifest_list != head["delta"]:
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
        return None if None in missed else [found for found in (*missed, snapshot) if found is not None]

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
        # Renamed into place: after a crash the head names runs that are complete, or the old ones.
        half = self.folder / f".{FILE}"
        half.write_text(json.dumps(head))
        half.replace(self.folder / FILE)
        for path in self.folder.iterdir():
            if path.is_dir() and path.name not in index.runs:
                shutil.rmtree(path, ignore_errors=True)  # processes that have mapped it can still read it


def _name_of(root: str) -> str:
    return hashlib.sha256(root.encode()).hexdigest()[:24]


def forget_keys(root: str) -> None:
    """Delete the indexes of a dropped table and of its branches; other machines evict theirs in time."""
    for folder in default_folder().glob(f"{_name_of(root)}-*"):
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
    for folder in sorted(used, key=lambda path: used[path]):
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
