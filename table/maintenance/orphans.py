"""Orphan files, which nothing refers to: left by crashes, lost commits, rollbacks and deleted branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from penstock.storage.base import Entry
from penstock.table.buckets.layout import Layout
from penstock.table.iceberg.unused_files import metadata_files, metadata_place, used_metadata_files
from penstock.table.iceberg.vectors import puffin_name
from penstock.table.maintenance.file_deletion import SweepResult, delete_all, with_folders
from penstock.table.maintenance.kept_states import all_branches
from penstock.table.maintenance.reachable import holdings_of
from penstock.table.maintenance.tags import tag_files
from penstock.table.meta.paths import external
from penstock.table.meta.store import TableStore
from penstock.table.operations.executor import Executor, Threads

# Java's default. Nothing refers to the files of a running commit yet, so they must be younger than this.
DAY = 24 * 3_600_000
_PATHS = 200  # that one unit deletes


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file nothing refers to, with its modification time in epoch milliseconds."""

    path: str
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class FolderUnit:
    """A folder with data files to list."""

    path: str
    size: int = 0  # unknown before it is listed


@dataclass(frozen=True, slots=True)
class OldFiles:
    """Lists the files of a folder that were last written before a time."""

    store: TableStore
    older_than: int

    def __call__(self, unit: FolderUnit) -> list[Orphan]:
        """Return the files. They are not known to be orphans yet."""
        return self.of(_inside(self.store, unit.path))

    def of(self, files: Iterable[tuple[str, Entry]]) -> list[Orphan]:
        """Return the files that are old enough. A file whose age the store does not know is not among them."""
        return [
            Orphan(path, entry.size, entry.modified) for path, entry in files if 0 < entry.modified < self.older_than
        ]


def find_orphans(store: TableStore, older_than: int | None = None, executor: Executor | None = None) -> list[Orphan]:
    """Return the orphans last written before `older_than`, in epoch millis (default: a day ago).

    Files of a running commit are not referred to yet, so `older_than` must be before the start of the longest one. The
    files are listed before the metadata is read: files that a commit adds in between count as used. A file whose age
    the store does not know is not an orphan. Reads every manifest of the table. `executor` lists the folders with data
    (default: some at a time); memory holds the names of all files.
    """
    if older_than is None:
        older_than = store.ambient.now_millis() - DAY
    old = OldFiles(store, older_than)
    found = old.of(_files(store))
    levels = len(Layout.of(store.schema()).partition_fields)
    units = [FolderUnit(path) for path in _bucket_folders(store, store.paths.data_root, levels)]
    found += [orphan for part in (executor or Threads()).run(old, units) for orphan in part]
    if not found:
        return []
    used = _used(store)
    return sorted((orphan for orphan in found if orphan.path not in used), key=lambda orphan: orphan.path)


@dataclass(frozen=True, slots=True)
class PathsUnit:
    """Files to delete."""

    paths: tuple[str, ...]
    size: int = 0


def delete_orphans(store: TableStore, orphans: Sequence[Orphan], executor: Executor | None = None) -> SweepResult:
    """Delete files that `find_orphans` found. Files that cannot be deleted are counted and left behind."""
    paths = [orphan.path for orphan in orphans]
    units = [PathsUnit(tuple(paths[place : place + _PATHS])) for place in range(0, len(paths), _PATHS)]
    return sum((executor or Threads()).run(partial(_deleted, store), units), SweepResult())


def _deleted(store: TableStore, unit: PathsUnit) -> SweepResult:
    return delete_all(store, unit.paths)


def _files(store: TableStore) -> Iterator[tuple[str, Entry]]:
    """Yield metadata files that could be orphans; hints, schemas and other files with fixed names are not included."""
    paths = store.paths
    for folder in (paths.manifest_folder, paths.index_folder, paths.statistics_folder):
        yield from _inside(store, folder)
    for branch in all_branches(store):
        for folder in _folders_of_names(branch):
            # Metadata is written under a hidden name and then renamed. A hidden file that is left is from a writer
            # that died.
            yield from ((path, entry) for path, entry in _inside(store, folder) if entry.name.startswith("."))
    # A driver that died left the rows that its tasks had staged.
    for entry in store.storage.list(paths.staging_folder):
        if entry.is_dir:
            yield from _inside(store, f"{paths.staging_folder}/{entry.name}")
    place = metadata_place(store)
    if place is not None:
        yield from metadata_files(place)


def _folders_of_names(branch: TableStore) -> tuple[str, ...]:
    paths = branch.paths
    return (
        paths.snapshot_folder,
        paths.changelog_folder,
        paths.schema_folder,
        paths.tag_folder,
        paths.consumer_folder,
    )


def _inside(store: TableStore, folder: str) -> Iterator[tuple[str, Entry]]:
    return ((f"{folder}/{entry.name}", entry) for entry in store.storage.list(folder) if not entry.is_dir)


def _bucket_folders(store: TableStore, folder: str, partition_levels: int) -> Iterator[str]:
    for entry in store.storage.list(folder):
        path = f"{folder}/{entry.name}"
        if not entry.is_dir:
            continue
        # Only folders with the names of partitions and buckets are searched. Other files below the table do not belong
        # to it, and are never deleted.
        if partition_levels == 0 and entry.name.startswith("bucket-"):
            yield path
        elif partition_levels > 0 and "=" in entry.name:
            yield from _bucket_folders(store, path, partition_levels - 1)


def _used(store: TableStore) -> set[str]:
    """Return the paths of all files that any branch uses.

    Tags and branches are read one after the other. If a tag is renamed meanwhile, or deleted after a branch or a
    rollback began with it, its files may move from a part that is not read yet to a part that was read, and would be
    missed. So everything is read again until nothing has moved.
    """
    used: set[str] = set()
    before: _Roots | None = None
    while before is None or not (now := _Roots.of(store)).is_in(before):
        before = _Roots.of(store) if before is None else now
        used |= _used_now(store)
    return used


@dataclass(frozen=True, slots=True)
class _Roots:
    """The branches with their tags, and the first snapshot of each."""

    tags: Mapping[str | None, frozenset[str]]
    earliest: Mapping[str | None, int]

    @classmethod
    def of(cls, store: TableStore) -> Self:
        found = all_branches(store)
        tags = {branch.paths.branch: frozenset(tag_files(branch).names()) for branch in found}
        return cls(tags, {branch.paths.branch: branch.snapshots.earliest_id() or 0 for branch in found})

    def is_in(self, before: Self) -> bool:
        """Return whether only tags and snapshots have gone since then, and new snapshots came after the others."""
        return self.tags.keys() == before.tags.keys() and all(
            tags <= before.tags[branch] and self.earliest[branch] >= before.earliest[branch]
            for branch, tags in self.tags.items()
        )


def _used_now(store: TableStore) -> set[str]:
    used: set[str] = set()
    place = metadata_place(store)
    if place is not None:
        used |= used_metadata_files(store, place)
    for branch in all_branches(store):
        holdings, layout = holdings_of(branch), Layout.of(branch.schema())
        used.update(map(branch.paths.manifest, (*holdings.metadata.lists, *holdings.metadata.manifests)))
        used.update(map(branch.paths.statistics, holdings.metadata.statistics))
        for index in holdings.metadata.indexes.values():
            folder = layout.partition_dir(index.partition)
            used.add(external(index.external_path) or branch.paths.index_file(index.name, folder, index.bucket))
            if place is not None:
                # The next publication may need it, and gives it the same name.
                used.add(f"{place.folder}/{puffin_name(index.name)}")
        for entry, folder in with_folders(branch, holdings.files.values()):
            used.add(external(entry.file.external_path) or f"{folder}/{entry.file.name}")
            used.update(f"{folder}/{name}" for name in entry.file.extra_files)
    return used
