"""Orphan files, which nothing refers to: left by crashes, lost commits, rollbacks and deleted branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.storage.base import Entry
from penstock.table.buckets.layout import Layout
from penstock.table.maintenance.file_deletion import SweepResult, delete_all, with_folders
from penstock.table.maintenance.reachable import holdings_of, lines
from penstock.table.meta.paths import external
from penstock.table.meta.store import TableStore

# Java's default. Nothing refers to the files of a running commit yet, so they must be younger than this.
DAY = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file nothing refers to, with its modification time in epoch milliseconds."""

    path: str
    size: int
    modified: int


def find_orphans(store: TableStore, older_than: int | None = None) -> list[Orphan]:
    """Return the orphans last written before `older_than`, in epoch millis (default: a day ago).

    Files of a running commit are not referred to yet, so `older_than` must be before the start of the longest one. The
    files are listed before the metadata is read: files that a commit adds in between count as used. A file whose age
    the store does not know is not an orphan. Reads every manifest of the table.
    """
    if older_than is None:
        older_than = store.ambient.now_millis() - DAY
    found = [
        Orphan(path, entry.size, entry.modified) for path, entry in _files(store) if 0 < entry.modified < older_than
    ]
    if not found:
        return []
    used = _used(store)
    return sorted((orphan for orphan in found if orphan.path not in used), key=lambda orphan: orphan.path)


def remove_orphans(store: TableStore, older_than: int | None = None) -> SweepResult:
    """Delete the orphans; see `find_orphans`."""
    return delete_all(store, [orphan.path for orphan in find_orphans(store, older_than)])


def _files(store: TableStore) -> Iterator[tuple[str, Entry]]:
    """Yield all files that could be orphans; hints, schemas and other files with fixed names are not included."""
    paths = store.paths
    for folder in (paths.manifest_folder, paths.index_folder, paths.statistics_folder):
        yield from _inside(store, folder)
    yield from _bucket_files(store, paths.data_root, len(Layout.of(store.schema()).partition_fields))
    for line in lines(store):
        for folder in _folders_of_names(line):
            # Metadata is written under a hidden name and then renamed. A hidden file that is left is from a writer
            # that died.
            yield from ((path, entry) for path, entry in _inside(store, folder) if entry.name.startswith("."))


def _folders_of_names(line: TableStore) -> tuple[str, ...]:
    paths = line.paths
    return (
        paths.snapshot_folder,
        paths.changelog_folder,
        paths.schema_folder,
        paths.tag_folder,
        paths.consumer_folder,
    )


def _inside(store: TableStore, folder: str) -> Iterator[tuple[str, Entry]]:
    return ((f"{folder}/{entry.name}", entry) for entry in store.storage.list(folder) if not entry.is_dir)


def _bucket_files(store: TableStore, folder: str, partition_levels: int) -> Iterator[tuple[str, Entry]]:
    for entry in store.storage.list(folder):
        path = f"{folder}/{entry.name}"
        if not entry.is_dir:
            continue
        # Only folders with the names of partitions and buckets are searched. Whatever else somebody keeps below the
        # table is not the table's, and is never deleted.
        if partition_levels == 0 and entry.name.startswith("bucket-"):
            yield from _inside(store, path)
        elif partition_levels > 0 and "=" in entry.name:
            yield from _bucket_files(store, path, partition_levels - 1)


def _used(store: TableStore) -> set[str]:
    """Return the paths of all files that any branch uses."""
    used: set[str] = set()
    for line in lines(store):
        holdings, layout = holdings_of(line), Layout.of(line.schema())
        used.update(map(line.paths.manifest, (*holdings.metadata.lists, *holdings.metadata.manifests)))
        used.update(map(line.paths.statistics, holdings.metadata.statistics))
        for index in holdings.metadata.indexes.values():
            folder = layout.partition_dir(index.partition)
            used.add(external(index.external_path) or line.paths.index_file(index.name, folder, index.bucket))
        for entry, folder in with_folders(line, holdings.files.values()):
            used.add(external(entry.file.external_path) or f"{folder}/{entry.file.name}")
            used.update(f"{folder}/{name}" for name in entry.file.extra_files)
    return used
