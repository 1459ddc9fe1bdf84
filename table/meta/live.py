"""The content of a table at a snapshot: the merged entries of its manifests, optionally limited to some of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from penstock.errors import TableCorrupt
from penstock.table.errors import HistoryExpired, ManifestMissing
from penstock.table.meta.entries import Bucket, FileKind, IndexEntry, ManifestEntry, ManifestFile
from penstock.table.meta.manifest import read_index_manifest, read_manifest, read_manifest_list
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore


def _read(store: TableStore, name: str, snapshot: Snapshot, size: int | None = None) -> bytes:
    """Read a manifest file and compare its length to `size`, the size recorded in the metadata.

    The check is needed because a container that was truncated between two blocks would be read as a shorter one.
    """
    path = store.paths.manifest(name)
    try:
        data = store.storage.read(path)
    except FileNotFoundError as reason:
        raise ManifestMissing(
            "a manifest is missing",
            table=store.name,
            file=path,
            snapshot=snapshot.id,
            hint="the snapshot may have expired while it was read; read a newer one, or protect it by a tag",
        ) from reason
    if size is not None and len(data) != size:
        raise TableCorrupt(
            f"a manifest has {len(data)} bytes and should have {size}",
            table=store.name,
            file=path,
            snapshot=snapshot.id,
        )
    return data


def _manifests(store: TableStore, name: str, snapshot: Snapshot, size: int | None) -> list[ManifestFile]:
    if store.keeps_lists:
        return _cached_list(store, name, lambda: _read_list(store, name, snapshot, size))
    return _read_list(store, name, snapshot, size)


def _read_list(store: TableStore, name: str, snapshot: Snapshot, size: int | None) -> list[ManifestFile]:
    data = _read(store, name, snapshot, size)
    return read_manifest_list(data, store.paths.manifest(name), table=store.name, snapshot=snapshot.id)


def base_manifests(store: TableStore, snapshot: Snapshot) -> list[ManifestFile]:
    """Return the manifests of the state before the snapshot's commit."""
    return _manifests(store, snapshot.base_manifest_list, snapshot, snapshot.base_manifest_list_size)


def delta_manifests(store: TableStore, snapshot: Snapshot) -> list[ManifestFile]:
    """Return the manifests with the files that the snapshot's commit added and deleted."""
    return _manifests(store, snapshot.delta_manifest_list, snapshot, snapshot.delta_manifest_list_size)


def all_manifests(store: TableStore, snapshot: Snapshot) -> list[ManifestFile]:
    """Return the manifests that together describe the table at the snapshot, older ones first."""
    return base_manifests(store, snapshot) + delta_manifests(store, snapshot)


def manifests_to_commit_on(store: TableStore, snapshot: Snapshot) -> list[ManifestFile]:
    """Return what `all_manifests` returns, to writers and commits, from the cache if possible.

    To others, a list that is gone shows that its snapshot has expired. A commit on an expired snapshot is refused in
    any case.
    """
    return _cached_list(store, snapshot.base_manifest_list, lambda: base_manifests(store, snapshot)) + _cached_list(
        store, snapshot.delta_manifest_list, lambda: delta_manifests(store, snapshot)
    )


def _cached_list(store: TableStore, name: str, read: Callable[[], list[ManifestFile]]) -> list[ManifestFile]:
    found = store.lists.get(name)
    if found is None:
        found = read()
        store.lists.put(name, found)
    return found


def changelog_manifests(store: TableStore, snapshot: Snapshot) -> list[ManifestFile]:
    """Return the manifests of the snapshot's changelog files; an empty list if it has no changelog."""
    name = snapshot.changelog_manifest_list
    return _manifests(store, name, snapshot, snapshot.changelog_manifest_list_size) if name else []


def manifest_entries(store: TableStore, manifest: ManifestFile, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the entries of a manifest, from the cache if possible."""
    entries = store.cache.get(manifest.name)
    if entries is None:
        data, path = _read(store, manifest.name, snapshot, manifest.size), store.paths.manifest(manifest.name)
        entries = read_manifest(data, path, table=store.name, snapshot=snapshot.id)
        _check_counts(entries, manifest, table=store.name, file=path, snapshot=snapshot.id)
        store.cache.put(manifest.name, entries)
    return entries


def _check_counts(entries: list[ManifestEntry], manifest: ManifestFile, **facts: object) -> None:
    """Raise TableCorrupt if the manifest list counts other entries: not all blocks of Avro have a checksum."""
    added = sum(entry.kind is FileKind.ADD for entry in entries)
    if (added, len(entries) - added) == (manifest.added_files, manifest.deleted_files):
        return
    raise TableCorrupt(
        f"a manifest adds {added} files and deletes {len(entries) - added}, and its list says "
        f"{manifest.added_files} and {manifest.deleted_files}",
        hint=None,
        **facts,
    )


def live_entries(
    store: TableStore,
    snapshot: Snapshot,
    *,
    partitions: Collection[bytes] | None = None,
    buckets: Collection[Bucket] | None = None,
    to_commit: bool = False,
) -> list[ManifestEntry]:
    """Return the data files of the table at `snapshot`, limited to `partitions` or `buckets` if they are given.

    `to_commit`: see `manifests_to_commit_on`.
    """
    manifests = manifests_to_commit_on(store, snapshot) if to_commit else all_manifests(store, snapshot)
    # The ADD and the DELETE of a file may be in different manifests. Conditions must therefore depend on what both have
    # in common, such as the partition, or a deleted file would reappear.
    if buckets is not None and not buckets:
        return []
    entries = (entry for manifest in manifests for entry in manifest_entries(store, manifest, snapshot))
    if partitions is not None:
        entries = (entry for entry in entries if entry.partition in partitions)
    if buckets is not None:
        entries = (entry for entry in entries if (entry.partition, entry.bucket) in buckets)
    return merged(entries)


def merged(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the files that were added and not deleted afterwards, in the order in which they were added."""
    live: dict[tuple[object, ...], ManifestEntry] = {}
    for entry in entries:
        if entry.kind is FileKind.ADD:
            live[entry.identity] = entry
        else:
            live.pop(entry.identity, None)
    return list(live.values())


def delta_entries(store: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the entries of a snapshot's own manifests: the files that its commit added and deleted."""
    return [
        entry for manifest in delta_manifests(store, snapshot) for entry in manifest_entries(store, manifest, snapshot)
    ]


def changelog_entries(store: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the entries of the changelog files that a snapshot's commit wrote."""
    return [
        entry
        for manifest in changelog_manifests(store, snapshot)
        for entry in manifest_entries(store, manifest, snapshot)
    ]


def remaining_changelog(store: TableStore, snapshot: Snapshot) -> tuple[list[ManifestFile], list[ManifestEntry]]:
    """Return the manifests and the entries of the snapshot's changelog; both are empty if the changelog has expired.

    Expiration deletes the changelog together with its snapshot, and a tag preserves the data files only. A snapshot
    that was restored from its tag (by a rollback, as the first snapshot of a branch, as a copy) therefore refers to a
    changelog that no longer exists. Such a snapshot has no predecessor. If there is a predecessor, the file is really
    lost, and ManifestMissing is raised.
    """
    try:
        return changelog_manifests(store, snapshot), changelog_entries(store, snapshot)
    except ManifestMissing:
        if store.snapshots.exists(snapshot.id - 1):
            raise
        return [], []


def index_entries(store: TableStore, snapshot: Snapshot, *, to_commit: bool = False) -> list[IndexEntry]:
    """Return the entries of the snapshot's index manifest.

    `to_commit`: from the cache if possible, as in `manifests_to_commit_on`.
    """
    name = snapshot.index_manifest
    if not name:
        return []
    if not to_commit:
        return _read_index(store, name, snapshot)
    found = store.indexes.get(name)
    if found is None:
        found = _read_index(store, name, snapshot)
        keep_index(store, name, found)
    return found


def keep_index(store: TableStore, name: str, entries: list[IndexEntry]) -> None:
    """Keep the entries of an index manifest for commits. An entry may name the vectors of thousands of data files."""
    store.indexes.put(name, entries, sum(len(entry.vector_ranges or ()) for entry in entries))


def _read_index(store: TableStore, name: str, snapshot: Snapshot) -> list[IndexEntry]:
    data = _read(store, name, snapshot)
    return read_index_manifest(data, store.paths.manifest(name), table=store.name, snapshot=snapshot.id)


def added_between(store: TableStore, base: int, latest: Snapshot) -> Iterator[tuple[str, int, ManifestEntry]]:
    """Yield (commit user, snapshot id, entry) for each entry committed after snapshot `base`, newest first.

    Raise HistoryExpired when a snapshot after `base` no longer exists, because its changes cannot be known.
    """
    snapshot = latest
    while snapshot.id > base:
        for entry in delta_entries(store, snapshot):
            yield snapshot.commit_user, snapshot.id, entry
        # The snapshot `base` itself need not exist any more.
        if snapshot.id == base + 1:
            return
        before = store.snapshots.find(snapshot.id - 1)
        if before is None:
            raise history_expired(store, base, snapshot.id)
        snapshot = before


def history_expired(store: TableStore, base: int, earliest: int) -> HistoryExpired:
    """Return the error for a conflict check that needs expired snapshots."""
    return HistoryExpired(
        "the snapshots that show whether another job changed the same rows have expired",
        table=store.name,
        work_began_at_snapshot=base,
        earliest_snapshot=earliest,
        hint="run it again; if it lasts longer than snapshots are kept, raise snapshot.time-retained or "
        "snapshot.num-retained.min",
    )
