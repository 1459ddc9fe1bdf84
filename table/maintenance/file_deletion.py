"""Deletion of files that no snapshot, tag or branch uses any more.

Data files are deleted first, then the metadata that refers to them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from penstock.table.buckets.layout import Layout
from penstock.table.maintenance.kept_states import other_branches
from penstock.table.maintenance.reachable import ReferencedFiles, holdings_of, live_among
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.paths import external
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore

log = logging.getLogger(__name__)

NEVER = 1 << 62  # in place of a snapshot id, for files that no snapshot removed


@dataclass(slots=True)
class UnusedFiles:
    """The files that expired snapshots or tags leave behind, as far as the other snapshots of the branch are concerned.

    `files` are data files with the id of the snapshot that removed them: an older tag may still need them. `changelog`
    files are not part of any table state, so no tag needs them.
    """

    files: list[tuple[int, ManifestEntry]] = field(default_factory=list)
    changelog: list[ManifestEntry] = field(default_factory=list)
    metadata: ReferencedFiles = field(default_factory=ReferencedFiles)


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The numbers of files that were deleted, and that could not be deleted and are left to orphan removal."""

    deleted: int = 0
    failed: int = 0

    def __add__(self, other: SweepResult) -> SweepResult:
        return SweepResult(self.deleted + other.deleted, self.failed + other.failed)


@dataclass(frozen=True, slots=True)
class ExpiryResult:
    """The range of expired snapshot ids, from `first` to `end` (exclusive); empty when both are equal.

    `listed` is how many snapshots there were before. `is_limited`: the round reached its limit, so more may be due.
    """

    first: int = 0
    end: int = 0
    changelogs: int = 0
    swept: SweepResult = field(default_factory=SweepResult)
    listed: int = field(default=0, compare=False)
    is_limited: bool = field(default=False, compare=False)

    @property
    def snapshots(self) -> int:
        return self.end - self.first


def sweep(
    store: TableStore,
    garbage: UnusedFiles,
    *,
    snapshots: Iterable[Snapshot],
    tags: Iterable[Snapshot],
    unrelated: Collection[Snapshot] = (),
    clean_folders: bool = False,
) -> SweepResult:
    """Delete the garbage, except files that the given snapshots and tags, or other branches, still need.

    A file that one of `snapshots` removed is needed by older tags only. For the states in `unrelated` this does not
    follow, so all their files are kept.

    Called after the files of the expired snapshots themselves are gone, so that nobody can tag one in the meantime.
    After a crash half way, the remaining files are orphans. TableCorrupt, and nothing deleted, when the metadata of
    what must be kept cannot be read.
    """
    unused = _unused_here(store, garbage, snapshots, tags, unrelated)
    return _delete_unused_elsewhere(store, *unused, clean_folders=clean_folders)


def sweep_tagged(store: TableStore, garbage: Iterable[tuple[UnusedFiles, Sequence[Snapshot]]]) -> SweepResult:
    """Delete the garbage of several deleted tags, each with the tags that may need its files, as `sweep` does.

    The other branches are read once for all of them.
    """
    doomed, entries = ReferencedFiles(), list[ManifestEntry]()
    for unused, tags in garbage:
        metadata, files = _unused_here(store, unused, (), tags, ())
        doomed.add(metadata)
        entries += files
    return _delete_unused_elsewhere(store, doomed, entries, clean_folders=False)


def _unused_here(
    store: TableStore,
    garbage: UnusedFiles,
    snapshots: Iterable[Snapshot],
    tags: Iterable[Snapshot],
    unrelated: Iterable[Snapshot],
) -> tuple[ReferencedFiles, list[ManifestEntry]]:
    """Return the metadata and the files of the garbage that these states of the branch do not need."""
    keep, files = ReferencedFiles(), list(garbage.files)
    for snapshot in snapshots:
        keep.add_state(store, snapshot)
    for tag in tags:
        keep.add_state(store, tag)
        # A file that snapshot N removed was live before N, so only tags of snapshots before N can need it.
        live = live_among(store, tag, [entry for removed_by, entry in files if removed_by > tag.id])
        files = [
            (removed_by, entry) for removed_by, entry in files if removed_by <= tag.id or entry.file.name not in live
        ]
    for state in unrelated:
        keep.add_state(store, state)
        live = live_among(store, state, [entry for _, entry in files])
        files = [(removed_by, entry) for removed_by, entry in files if entry.file.name not in live]
    return garbage.metadata.without(keep), [*(entry for _, entry in files), *garbage.changelog]


def _delete_unused_elsewhere(
    store: TableStore, doomed: ReferencedFiles, entries: list[ManifestEntry], *, clean_folders: bool
) -> SweepResult:
    # Branches share data files and manifests: what this one no longer needs, another may.
    for branch in other_branches(store) if entries or not doomed.is_empty else ():
        elsewhere = holdings_of(branch)
        doomed = doomed.without(elsewhere.metadata)
        entries = [
            entry for entry in entries if (entry.partition, entry.bucket, entry.file.name) not in elsewhere.files
        ]
    return _delete_files(store, entries, clean_folders=clean_folders) + _delete_metadata(store, doomed)


def _delete_files(store: TableStore, entries: Iterable[ManifestEntry], *, clean_folders: bool) -> SweepResult:
    paths, folders = set(), set()
    for entry, folder in with_folders(store, entries):
        paths.add(external(entry.file.external_path) or f"{folder}/{entry.file.name}")
        paths.update(f"{folder}/{name}" for name in entry.file.extra_files)
        folders.add(folder)
    swept = delete_all(store, sorted(paths))
    if clean_folders:
        for folder in sorted(folders):
            _delete_empty(store, folder)
    return swept


def with_folders(store: TableStore, entries: Iterable[ManifestEntry]) -> Iterable[tuple[ManifestEntry, str]]:
    """Yield each entry with the folder that contains its files."""
    layout = Layout.of(store.schema())
    known: dict[tuple[bytes, int], str] = {}
    for entry in entries:
        place = entry.partition, entry.bucket
        folder = known.get(place)
        if folder is None:
            folder = store.paths.bucket_dir(layout.partition_dir(entry.partition), entry.bucket)
            known[place] = folder
        yield entry, folder


def _delete_empty(store: TableStore, folder: str) -> None:
    """Delete the bucket's folder and its partition's folders, as far up as they are empty."""
    while folder != store.paths.data_root and not store.storage.list(folder):
        store.storage.delete(folder)
        folder = folder.rpartition("/")[0]


def _delete_metadata(store: TableStore, metadata: ReferencedFiles) -> SweepResult:
    layout, paths = Layout.of(store.schema()), store.paths
    indexes = [
        external(entry.external_path)
        or paths.index_file(entry.name, layout.partition_dir(entry.partition), entry.bucket)
        for entry in metadata.indexes.values()
    ]
    statistics = [paths.statistics(name) for name in sorted(metadata.statistics)]
    manifests = [paths.manifest(name) for name in (*sorted(metadata.manifests), *sorted(metadata.lists))]
    return delete_all(store, [*sorted(indexes), *statistics, *manifests])


def delete_all(store: TableStore, paths: Collection[str]) -> SweepResult:
    """Delete files one by one; files that cannot be deleted are logged, counted and left behind."""
    failures: list[tuple[str, OSError]] = []
    refused = 0
    for path in paths:
        if ".." in path.split("/"):
            # A name with such a path, which no Paimon writer creates, must not delete a file outside the table's
            # folders.
            log.error("event=delete_refused table=%s path=%s reason=the path leads out of its folder", store.name, path)
            refused += 1
            continue
        try:
            store.storage.delete(path)
        except OSError as error:
            failures.append((path, error))
    if failures:
        first, reason = failures[0]
        log.warning(
            "event=files_not_deleted table=%s files=%d first=%s reason=%s", store.name, len(failures), first, reason
        )
    failed = refused + len(failures)
    return SweepResult(len(paths) - failed, failed)
