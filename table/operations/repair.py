"""Repair of metadata: merging manifests, and dropping references to lost files and lost manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.table.buckets.layout import Layout
from penstock.table.commit.attempt import Retries, commit_snapshot
from penstock.table.commit.changes import CommitChanges
from penstock.table.commit.committer import Committer
from penstock.table.commit.identity import Identity
from penstock.table.meta.entries import ManifestEntry, ManifestFile
from penstock.table.meta.live import all_manifests, live_entries, manifest_entries, merged
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.selection import Selection
from penstock.table.options.commits import MANIFEST_TARGET_FILE_SIZE
from penstock.table.options.table_options import TableOptions


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of a repair: `paths` are the lost files, or the manifests to merge.

    Empty, and without a snapshot, when there was nothing to repair.
    """

    paths: tuple[str, ...] = ()
    snapshot: Snapshot | None = None


def compact_manifests(
    store: TableStore, *, dry_run: bool = False, options: Mapping[str, str] | None = None
) -> RepairResult:
    """Merge the table's manifests into as few as possible, without the entries that were deleted again.

    Commits one COMPACT snapshot that changes no row. Nothing happens when there is at most one small manifest and none
    contains deletes. `options` override the table's. Keeps all entries of the table in memory.
    """
    own = options or {}
    latest = store.snapshots.latest()
    manifests = all_manifests(store, latest) if latest is not None else []
    target = TableOptions({**store.schema().options, **own})[MANIFEST_TARGET_FILE_SIZE]
    many = [manifest for manifest in manifests if manifest.deleted_files or manifest.size < target]
    if len(many) < 2 and not any(manifest.deleted_files for manifest in many):
        return RepairResult()
    paths = tuple(store.paths.manifest(manifest.name) for manifest in many)
    return RepairResult(paths, None if dry_run else _rebased(store, live_entries, own))


def remove_unexisting_manifests(store: TableStore, *, dry_run: bool = False) -> RepairResult:
    """Commit a snapshot that refers only to manifests that exist.

    Files added by a lost manifest are lost, and files deleted by it reappear: use it for tables that cannot be read
    any more. Nothing happens when all manifests exist.
    """
    latest = store.snapshots.latest()
    if latest is None:
        return RepairResult()
    paths = (store.paths.manifest(manifest.name) for manifest in all_manifests(store, latest))
    lost = tuple(path for path in paths if not store.storage.exists(path))
    return RepairResult(lost, None if dry_run or not lost else _rebased(store, _entries_that_are_there))


def remove_unexisting_files(
    store: TableStore, partitions: Sequence[Mapping[str, object]] | None = None, *, dry_run: bool = False
) -> RepairResult:
    """Remove the data files that no longer exist from the table, as one OVERWRITE; their rows are lost.

    CommitConflict when one of them was compacted away in the meantime: call it again.
    """
    latest = store.snapshots.latest()
    if latest is None:
        return RepairResult()
    lost = list(_lost_entries(store, latest, partitions))
    paths = tuple(path for _, path in lost)
    if dry_run or not lost:
        return RepairResult(paths)
    gone = [entry.deleted() for entry, _ in lost]
    committer = Committer(store, store.new_commit_user())
    return RepairResult(paths, committer.rewrite(CommitChanges(CommitKind.OVERWRITE, gone)).last)


def _rebased(
    store: TableStore,
    entries: Callable[[TableStore, Snapshot], list[ManifestEntry]],
    options: Mapping[str, str] | None = None,
) -> Snapshot:
    def check(latest: Snapshot | None, first: bool) -> CommitChanges:
        # Read again by every attempt: this list replaces all manifests, so entries that were committed meanwhile
        # must be in it.
        base = entries(store, latest) if latest is not None else []
        return CommitChanges(CommitKind.COMPACT, base=base, options=options or {})

    identity = Identity(store.new_commit_user(), BATCH_IDENTIFIER)
    return commit_snapshot(store, identity, Retries.of(store.schema().options), check)


def _entries_that_are_there(store: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
    existing: list[ManifestFile] = [
        manifest
        for manifest in all_manifests(store, snapshot)
        if store.storage.exists(store.paths.manifest(manifest.name))
    ]
    return merged(entry for manifest in existing for entry in manifest_entries(store, manifest, snapshot))


def _lost_entries(
    store: TableStore, snapshot: Snapshot, partitions: Sequence[Mapping[str, object]] | None
) -> Iterator[tuple[ManifestEntry, str]]:
    """Yield each missing entry with the path its file should have. Each folder is listed once."""
    layout = Layout.of(store.schema())
    entries = live_entries(store, snapshot)
    chosen = None if partitions is None else set(Selection(partitions).partitions_of(store, entries))
    listed: dict[str, set[str]] = {}
    for entry in entries:
        if chosen is not None and entry.partition not in chosen:
            continue
        path = layout.path_of(store.paths, entry.partition, entry.bucket)(entry.file)
        folder, _, name = path.rpartition("/")
        if folder not in listed:
            listed[folder] = {found.name for found in store.storage.list(folder) if not found.is_dir}
        if name not in listed[folder]:
            yield entry, path
