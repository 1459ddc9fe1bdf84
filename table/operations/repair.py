"""Metadata put in order: manifests written together, and what names lost files written without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.table.buckets.layout import Layout
from penstock.table.commit.attempt import Identity, Retries, land
from penstock.table.commit.changes import Changes
from penstock.table.commit.committer import Committer
from penstock.table.meta.entries import FileKind, ManifestEntry, ManifestFile
from penstock.table.meta.live import all_manifests, live_entries, manifest_entries, merged
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.selection import Selection
from penstock.table.schema.options import Options


@dataclass(frozen=True, slots=True)
class Healed:
    """`paths` are the files that are gone, or the manifests that were many; none, and no snapshot, when all is well."""

    paths: tuple[str, ...] = ()
    snapshot: Snapshot | None = None


def compact_manifests(store: TableStore, *, dry_run: bool = False, options: Mapping[str, str] | None = None) -> Healed:
    """Write the table's manifests together into as few as there need be, without what was taken away again.

    One COMPACT snapshot that changes no row. Nothing happens when there is no more than one small manifest and none
    takes files away. `options` stand for the table's of these names. Holds all entries of the table in memory.
    """
    own = options or {}
    latest = store.snapshots.latest()
    manifests = all_manifests(store, latest) if latest is not None else []
    target = Options({**store.schema().options, **own}).size("manifest.target-file-size", 8 << 20)
    many = [manifest for manifest in manifests if manifest.deleted_files or manifest.size < target]
    if len(many) < 2 and not any(manifest.deleted_files for manifest in many):
        return Healed()
    paths = tuple(store.paths.manifest(manifest.name) for manifest in many)
    return Healed(paths, None if dry_run else _rebased(store, live_entries, own))


def remove_unexisting_manifests(store: TableStore, *, dry_run: bool = False) -> Healed:
    """Let the newest snapshot be followed by one that names only manifests that are there.

    The files that a lost manifest added are lost with it, those that it took away come back: for tables that cannot be
    read any more. Nothing happens when all manifests are there.
    """
    latest = store.snapshots.latest()
    if latest is None:
        return Healed()
    paths = (store.paths.manifest(manifest.name) for manifest in all_manifests(store, latest))
    lost = tuple(path for path in paths if not store.storage.exists(path))
    return Healed(lost, None if dry_run or not lost else _rebased(store, _entries_that_are_there))


def remove_unexisting_files(
    store: TableStore, partitions: Sequence[Mapping[str, object]] | None = None, *, dry_run: bool = False
) -> Healed:
    """Take the data files that are not there any more out of the table, as one OVERWRITE; their rows are lost.

    CommitConflict when one of them was compacted away meanwhile: call it again.
    """
    latest = store.snapshots.latest()
    if latest is None:
        return Healed()
    lost = list(_lost_entries(store, latest, partitions))
    paths = tuple(path for _, path in lost)
    if dry_run or not lost:
        return Healed(paths)
    gone = [
        ManifestEntry(FileKind.DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file)
        for entry, _ in lost
    ]
    committer = Committer(store, store.new_commit_user())
    return Healed(paths, committer.rewrite(Changes(CommitKind.OVERWRITE, gone)).last)


def _rebased(
    store: TableStore,
    entries: Callable[[TableStore, Snapshot], list[ManifestEntry]],
    options: Mapping[str, str] | None = None,
) -> Snapshot:
    def check(latest: Snapshot | None, first: bool) -> Changes:
        base = entries(store, latest) if latest is not None else []
        return Changes(CommitKind.COMPACT, base=base, options=options or {})

    identity = Identity(store.new_commit_user(), BATCH_IDENTIFIER)
    return land(store, identity, Retries.of(store.schema().options), check)


def _entries_that_are_there(store: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
    there: list[ManifestFile] = [
        manifest
        for manifest in all_manifests(store, snapshot)
        if store.storage.exists(store.paths.manifest(manifest.name))
    ]
    return merged(entry for manifest in there for entry in manifest_entries(store, manifest, snapshot))


def _lost_entries(
    store: TableStore, snapshot: Snapshot, partitions: Sequence[Mapping[str, object]] | None
) -> Iterator[tuple[ManifestEntry, str]]:
    """Each with where its file should be. A folder is listed once."""
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
