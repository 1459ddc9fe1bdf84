"""Lookup files: copies of data files on local disk as raw Arrow rows and sorted keys, mapped into memory.

Data files never change, so a lookup file never becomes stale. It may be deleted at any time and is then written again.
Processes share lookup files through the page cache. They are published by renames, so processes that write the same
file concurrently do no harm.

The names of the files, and their deletion with the data files that they copy, are here too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.storage.private_folder import private_folder
from penstock.table.compaction.lookup_file import StoredFile, map_file, map_rows, write_keys, write_rows
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.meta.entries import Bucket, ManifestEntry
from penstock.table.meta.store import TableStore
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import DataType, field_json

_MOST_OPEN = 128
# A temporary file this old is from a process that died: writing one takes far less time. Marks of requests are
# forgotten after the same time.
_ABANDONED_SECONDS = 3600
# The names of lookup files with the merged rows of several data files end so, and do not contain the names of the data
# files.
MERGED = "-merged"


class LookupStore:
    """A folder of lookup files with a size limit; many processes may share it.

    `max_bytes` None is a tenth of the free disk space. A file that alone exceeds the limit is kept until the next is
    added.
    """

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._max_bytes = shutil.disk_usage(folder).free // 10 if max_bytes is None else max_bytes
        self._open: dict[str, StoredFile] = {}

    def get(self, name: str) -> StoredFile | None:
        """Return a stored file, or None if it does not exist (any more)."""
        # Removed and added again below: a dict is in order of insertion, so its first entry is the least recently
        # used one.
        stored = self._open.pop(name, None)
        if stored is None:
            try:
                stored = map_file(*self._paths(name))
                os.utime(self._paths(name)[0])  # least recently used files are evicted first
            except FileNotFoundError:
                return None
            except (pa.ArrowException, ValueError, OSError):  # files that were incomplete when the machine died
                self.drop([name])
                return None
        return self._opened(name, stored)

    def put(
        self, name: str, batches: Iterable[pa.RecordBatch], keys: Sequence[str], types: Sequence[DataType]
    ) -> StoredFile:
        """Store the rows of a data file, which must be in key order, and return them.

        A process that dies half way, or two that store the same file, do no harm.
        """
        mark = uuid.uuid4().hex
        data, key_file = self._folder / f".{mark}.arrow", self._folder / f".{mark}.keys"
        try:
            write_rows(data, batches)
            write_keys(key_file, map_rows(data), keys, types)
            stored = map_file(data, key_file)
            # A lookup file exists once its rows do, so the keys are renamed first.
            for made, path in zip((key_file, data), reversed(self._paths(name)), strict=True):
                made.replace(path)
        finally:
            data.unlink(missing_ok=True)
            key_file.unlink(missing_ok=True)
        self._evict(name)
        return self._opened(name, stored)

    def was_requested(self, name: str) -> bool:
        """Return whether this was called before with the name.

        Recorded in the folder, since writers are short-lived.
        """
        mark = self._folder / f"{name}.asked"
        known = mark.exists()
        mark.touch()
        return known

    def drop(self, names: Iterable[str]) -> None:
        """Delete the lookup files of data files that left the table."""
        for name in names:
            self._open.pop(name, None)
            for path in (*self._paths(name), self._folder / f"{name}.asked"):
                path.unlink(missing_ok=True)

    def drop_files(self, files: Container[str]) -> None:
        """Delete the lookup files of data files: `<file>-<mark>.<variant>` for each `<file>-<mark>` in `files`."""
        with os.scandir(self._folder) as found:
            names = {entry.name.rpartition(".")[0] for entry in found}
        self.drop(name for name in names if name.rpartition(".")[0] in files)

    def keep_only(self, mark: str, files: Container[str]) -> None:
        """Delete the lookup files named `<file>-<mark>.<anything>`, except those of the given data files.

        Merged rows that a lookup opened in the last hour stay: merging them again would cost a read of the bucket.
        """
        # The names alone: the folder has the files of all tables of this machine, and this runs for each compaction.
        with os.scandir(self._folder) as found:
            names = {entry.name.rpartition(".")[0] for entry in found if f"-{mark}." in entry.name}
        gone = (name for name in names if name.rpartition(f"-{mark}.")[0] not in files)
        self.drop(name for name in gone if not (name.endswith(MERGED) and self._is_recent(name)))

    def _is_recent(self, name: str) -> bool:
        try:
            return self._paths(name)[0].stat().st_mtime > time.time() - _ABANDONED_SECONDS
        except FileNotFoundError:
            return False

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self._folder / f"{name}.arrow", self._folder / f"{name}.keys"

    def _opened(self, name: str, stored: StoredFile) -> StoredFile:
        self._open[name] = stored
        while len(self._open) > _MOST_OPEN:
            del self._open[next(iter(self._open))]
        return stored

    def _evict(self, keep: str) -> None:
        """Delete the least recently used files beyond the limit.

        Processes that have mapped them can still read them.
        """
        sizes, used = Counter[str](), dict[str, float]()
        for path in self._folder.iterdir():
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if path.name.startswith(".") or path.suffix == ".asked":
                if status.st_mtime < time.time() - _ABANDONED_SECONDS:
                    path.unlink(missing_ok=True)
                continue
            # The rows and the keys of a file have the same stem.
            sizes[path.stem] += status.st_size
            used[path.stem] = max(used.get(path.stem, 0.0), status.st_mtime)
        total = sizes.total()
        for name in sorted(used, key=lambda name: used[name]):
            if total > self._max_bytes and name != keep:
                self.drop([name])
                total -= sizes[name]


def lookup_folder() -> Path:
    """Return the folder of lookup files on this machine."""
    return private_folder("lookup")


def bucket_mark(store: TableStore, place: Bucket) -> str:
    """Return a mark of the table and the bucket for the names of lookup files.

    File names are unique within a table, but a copied table has the same names.
    """
    partition, bucket = place
    return f"{root_mark(store.paths.root)}.{zlib.crc32(partition, bucket):08x}"


def columns_mark(schema: TableSchema) -> str:
    """Return a mark of the columns of a schema, which decide the rows that are read from a file.

    The schema id would not do: each branch counts its own schemas, and branches share files.
    """
    columns = json.dumps([field_json(column) for column in schema.fields], sort_keys=True)
    return hashlib.blake2s(columns.encode(), digest_size=8).hexdigest()


def root_mark(root: str) -> str:
    """Return a mark of the table's path for the names of lookup files."""
    return f"{zlib.crc32(root.encode()):08x}"


def drop_lookups(store: TableStore, removed: Iterable[ManifestEntry]) -> None:
    """Delete this machine's lookup files of data files that left the table.

    Other machines delete theirs when they next compact the bucket. A reader that has a file open can finish.
    """
    # The commit has just read the newest version.
    schema = store.schema_last_read()
    spec = CompactionSpec.of(schema) if schema.primary_keys else None
    if spec is not None and (spec.looks_up or spec.vectors) and (folder := lookup_folder()).exists():
        gone = {f"{entry.file.name}-{bucket_mark(store, (entry.partition, entry.bucket))}" for entry in removed}
        # The limit has no effect, since only adding a file evicts others; 0 saves asking for the free disk space.
        LookupStore(folder, 0).drop_files(gone)


def drop_table_lookups(root: str) -> None:
    """Delete this machine's lookup files of a table that was dropped or moved."""
    for path in lookup_folder().glob(f"*-{root_mark(root)}.*"):
        path.unlink(missing_ok=True)
