"""The manifest files of one commit.

Some are written by an attempt, some can be reused by the next attempt, and some must be deleted after a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.storage.base import write_together
from penstock.table.buckets.layout import Layout
from penstock.table.commit.changes import CommitChanges
from penstock.table.meta.container import manifest_codec
from penstock.table.meta.data_file import EMPTY_STATS
from penstock.table.meta.entries import FileKind, IndexEntry, ManifestEntry, ManifestFile
from penstock.table.meta.live import index_entries, keep_index, manifest_entries, manifests_to_commit_on
from penstock.table.meta.manifest import partition_stats, write_index_manifest, write_manifest, write_manifest_list
from penstock.table.meta.manifest_merge import merge_manifests
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.commits import MANIFEST_DELETE_FILE_DROP_STATS, MANIFEST_TARGET_FILE_SIZE
from penstock.table.schema.table_schema import TableSchema

_BYTES_PER_ENTRY = 400  # rough compressed size of an entry, to cut manifests near their target size
_MOST_UNWRITTEN = 16 << 20  # bytes of files that wait to be written together


@dataclass(frozen=True, slots=True)
class WrittenManifest:
    """The name and size of a file that was written."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class SnapshotLists:
    """The manifest lists and index manifest of one snapshot."""

    base: WrittenManifest
    delta: WrittenManifest
    changelog: WrittenManifest | None
    index_manifest: str | None


class ManifestListWriter:
    """The manifest files and lists that the attempts of one commit write.

    Delta and changelog do not depend on the previous snapshot, and are reused by later attempts while the changes stay
    the same; base list and index manifest are written again by each attempt.
    """

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._uuid = store.ambient.new_uuid()
        self._counters = {"manifest": 0, "manifest-list": 0, "index-manifest": 0}
        self._kept: tuple[CommitChanges, WrittenManifest, WrittenManifest | None] | None = None
        self._of_attempt: list[str] = []
        self._of_changes: list[str] = []
        self._of_uncertain: list[str] = []
        self._unwritten: dict[str, bytes] = {}

    def write(self, latest: Snapshot | None, changes: CommitChanges, schema: TableSchema) -> SnapshotLists:
        """Write the lists of one attempt, reusing lists of earlier attempts that are still valid."""
        lists = self._lists(latest, changes, schema)
        self._write_files()
        return lists

    def _lists(self, latest: Snapshot | None, changes: CommitChanges, schema: TableSchema) -> SnapshotLists:
        delta, changelog = self._delta(changes, schema)
        if changes.base is None:
            manifests = self._base(latest, schema)
        else:
            under = replace(schema, options={**schema.options, **changes.options})
            manifests = self._manifests(changes.base, under, self._of_attempt)
        base = self._list(manifests, schema, self._of_attempt)
        index = self._index(latest, changes.index, schema)
        return SnapshotLists(base, delta, changelog, index)

    def discard_attempt(self) -> None:
        """Delete the files only this attempt needed: another writer's snapshot has the id."""
        self._delete(self._of_attempt)

    def keep_attempt(self) -> None:
        """Keep the files of this attempt for now: its snapshot may be in the table, or appear later."""
        self._of_uncertain += self._of_attempt
        self._of_attempt.clear()

    def discard_all(self) -> None:
        """Delete the files of all attempts. No snapshot of these attempts is in the table, now or later."""
        self._delete(self._of_attempt)
        self._delete(self._of_uncertain)
        self._delete(self._of_changes)
        self._kept = None

    def _write_files(self) -> None:
        # Together, since nothing refers to any of them before the snapshot does.
        write_together(self._store.storage, self._unwritten)
        self._unwritten.clear()

    def _delete(self, paths: list[str]) -> None:
        for path in paths:
            self._unwritten.pop(path, None)
            self._store.storage.delete(path)
        paths.clear()

    def _delta(self, changes: CommitChanges, schema: TableSchema) -> tuple[WrittenManifest, WrittenManifest | None]:
        # Compared by value. With row tracking, the ids in the entries depend on the snapshot before, so each
        # attempt has other changes and writes them again.
        if self._kept is None or self._kept[0] != changes:
            delta = self._list(self._manifests(changes.entries, schema, self._of_changes), schema, self._of_changes)
            changelog = None
            if changes.changelog:
                manifests = self._manifests(changes.changelog, schema, self._of_changes)
                changelog = self._list(manifests, schema, self._of_changes)
            self._kept = (changes, delta, changelog)
        return self._kept[1:]

    def _base(self, latest: Snapshot | None, schema: TableSchema) -> list[ManifestFile]:
        if latest is None:
            return []
        return merge_manifests(
            manifests_to_commit_on(self._store, latest),
            read=lambda manifest: manifest_entries(self._store, manifest, latest),
            write=lambda entries: self._manifests(entries, schema, self._of_attempt),
            options=schema.typed,
            partition_types=Layout.of(schema).partition_types,
        )

    def _manifests(
        self, entries: Sequence[ManifestEntry], schema: TableSchema, created: list[str]
    ) -> list[ManifestFile]:
        if not entries:
            return []
        target = schema.typed[MANIFEST_TARGET_FILE_SIZE]
        most = max(1, target // _BYTES_PER_ENTRY)
        parts = [entries[start : start + most] for start in range(0, len(entries), most)]
        return [self._manifest(part, schema, created) for part in parts]

    def _manifest(self, entries: Sequence[ManifestEntry], schema: TableSchema, created: list[str]) -> ManifestFile:
        if schema.typed[MANIFEST_DELETE_FILE_DROP_STATS]:
            entries = [_without_stats(entry) if entry.kind is FileKind.DELETE else entry for entry in entries]
        written = self._put("manifest", write_manifest(entries, manifest_codec(schema.typed)), created)
        # The next commits of this process need the entries, for conflict checks and for merging manifests.
        self._store.cache.put(written.name, list(entries))
        added = sum(entry.kind is FileKind.ADD for entry in entries)
        types = Layout.of(schema).partition_types
        return ManifestFile(
            name=written.name,
            size=written.size,
            added_files=added,
            deleted_files=len(entries) - added,
            partition_stats=partition_stats([entry.partition for entry in entries], types),
            schema_id=schema.id,
            min_bucket=min(entry.bucket for entry in entries),
            max_bucket=max(entry.bucket for entry in entries),
            min_level=min(entry.file.level for entry in entries),
            max_level=max(entry.file.level for entry in entries),
        )

    def _list(self, manifests: Sequence[ManifestFile], schema: TableSchema, created: list[str]) -> WrittenManifest:
        written = self._put("manifest-list", write_manifest_list(manifests, manifest_codec(schema.typed)), created)
        # The next commit of this process begins with the lists of this one.
        self._store.lists.put(written.name, list(manifests))
        return written

    def _index(self, latest: Snapshot | None, changes: Sequence[IndexEntry], schema: TableSchema) -> str | None:
        if not changes:
            return latest.index_manifest if latest else None
        # Unlike manifests, an index manifest lists all index files of the table.
        before = index_entries(self._store, latest, to_commit=True) if latest else []
        entries = with_changes(before, changes)
        data = write_index_manifest(entries, manifest_codec(schema.typed))
        written = self._put("index-manifest", data, self._of_attempt)
        keep_index(self._store, written.name, entries)
        return written.name

    def _put(self, kind: str, data: bytes, created: list[str]) -> WrittenManifest:
        name = f"{kind}-{self._uuid}-{self._counters[kind]}"
        self._counters[kind] += 1
        path = self._store.paths.manifest(name)
        # Before the write: a write that failed may leave a file that has to be deleted.
        created.append(path)
        self._unwritten[path] = data
        if sum(map(len, self._unwritten.values())) > _MOST_UNWRITTEN:
            self._write_files()
        return WrittenManifest(name, len(data))


def _without_stats(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, value_stats=EMPTY_STATS, value_stats_cols=()))


def with_changes(entries: Sequence[IndexEntry], changes: Sequence[IndexEntry]) -> list[IndexEntry]:
    """Return the index entries after the changes: a new entry replaces the old one of its (partition, bucket, type)."""
    gone = {change.name for change in changes if change.kind is FileKind.DELETE}
    added = [change for change in changes if change.kind is FileKind.ADD]
    replaced = {_place(change) for change in added}
    kept = [entry for entry in entries if entry.name not in gone and _place(entry) not in replaced]
    return kept + added


def _place(entry: IndexEntry) -> tuple[object, ...]:
    return (entry.partition, entry.bucket, entry.index_type)
