"""The manifests of an Iceberg snapshot, made from the manifests of the previous snapshot and from the changes since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.table.iceberg.data_files import DataFiles, IcebergFileChanges
from penstock.table.iceberg.manifest_files import ManifestFiles
from penstock.table.iceberg.manifests import Content, IcebergEntry, Manifest, new_entry
from penstock.table.iceberg.vectors import puffin_name, puffin_of
from penstock.table.meta.entries import DELETION_VECTORS, IndexEntry, ManifestEntry
from penstock.table.meta.entry_cache import EntryCache
from penstock.table.meta.live import index_entries
from penstock.table.meta.paths import external
from penstock.table.meta.snapshot import Snapshot
from penstock.table.options.commits import MANIFEST_TARGET_FILE_SIZE
from penstock.table.options.iceberg import ICEBERG_COMPACTION_MAX_FILE_NUM, ICEBERG_COMPACTION_MIN_FILE_NUM

# The paths in manifests, by the URI of the manifest, so that a writer reads each one once to find removed files.
_PATHS: EntryCache[str] = EntryCache()


@dataclass(frozen=True, slots=True)
class ManifestChanges:
    """Makes the manifests of further snapshots of one table."""

    data: DataFiles
    files: ManifestFiles

    def all_of(self, snapshot: Snapshot, shown: Sequence[ManifestEntry]) -> list[Manifest]:
        """Return new manifests of all files that Iceberg shows, and of their deletion vectors."""
        uris = {self.data.uri((entry.partition, entry.bucket), entry.file): entry for entry in shown}
        made = self._write_added(IcebergFileChanges(uris, frozenset()), snapshot.id)
        return made + self._vectors([], snapshot)

    def after(
        self, manifests: Sequence[Manifest], changes: IcebergFileChanges, snapshot: Snapshot, *, same_vectors: bool
    ) -> list[Manifest]:
        """Return the manifests after a commit; `manifests` are those before it.

        Manifests without a removed file are used again. `same_vectors`: the commit changed no deletion vector.
        """
        live = [manifest for manifest in manifests if not manifest.is_empty]
        data = [manifest for manifest in live if manifest.content is Content.DATA]
        vectors = [manifest for manifest in live if manifest.content is Content.DELETES]
        known = (
            {path for manifest in data for path in self._paths(manifest)} & changes.risen if changes.risen else set()
        )
        new = replace(changes, added={uri: file for uri, file in changes.added.items() if uri not in known})
        data = self._without(data, changes.removed, snapshot.id) + self._write_added(new, snapshot.id)
        return self._merged(data, snapshot.id) + (vectors if same_vectors else self._vectors(vectors, snapshot))

    def _write_added(self, changes: IcebergFileChanges, snapshot_id: int) -> list[Manifest]:
        entries = (new_entry(snapshot_id, self.data.record(uri, entry)) for uri, entry in changes.added.items())
        return self.files.write(entries, Content.DATA, snapshot_id)

    def _without(self, manifests: Sequence[Manifest], removed: frozenset[str], snapshot_id: int) -> list[Manifest]:
        """Return the manifests with the removed files marked as deleted."""
        kept: list[Manifest] = []
        left = set(removed)
        # The newest first: most files that a commit removes are young.
        for manifest in reversed(manifests):
            found = left.intersection(self._paths(manifest)) if left else set()
            if found:
                entries = (self._marked(entry, found, snapshot_id) for entry in self._live(manifest))
                kept += reversed(self.files.write(entries, Content.DATA, snapshot_id))
                left -= found
            else:
                kept.append(manifest)
        return kept[::-1]

    @staticmethod
    def _marked(entry: IcebergEntry, removed: set[str], snapshot_id: int) -> IcebergEntry:
        return entry.as_deleted(snapshot_id) if entry.path in removed else entry.as_existing()

    def _paths(self, manifest: Manifest) -> list[str]:
        paths = _PATHS.get(manifest.path)
        if paths is None:
            paths = [entry.path for entry in self._live(manifest)]
            _PATHS.put(manifest.path, paths)
        return paths

    def _live(self, manifest: Manifest) -> Iterator[IcebergEntry]:
        return (entry for entry in self.files.read(manifest) if entry.is_live)

    def _merged(self, manifests: list[Manifest], snapshot_id: int) -> list[Manifest]:
        """Return the manifests with the small ones merged, if there are as many as the options say."""
        options = self.files.schema.typed
        target = options[MANIFEST_TARGET_FILE_SIZE]
        # A manifest that says what this commit deleted must stay for readers of changes.
        small = [
            manifest
            for manifest in manifests
            if manifest.length < target * 2 // 3 and not (manifest.files[2] and manifest.snapshot == snapshot_id)
        ]
        if len(small) < options[ICEBERG_COMPACTION_MIN_FILE_NUM]:
            return manifests
        if (
            len(small) < options[ICEBERG_COMPACTION_MAX_FILE_NUM]
            and sum(manifest.length for manifest in small) < target
        ):
            return manifests
        entries = (
            entry if entry.snapshot == snapshot_id else entry.as_existing()
            for manifest in small
            for entry in self._live(manifest)
        )
        merged = self.files.write(entries, Content.DATA, snapshot_id)
        names = {manifest.path for manifest in small}
        return merged + [manifest for manifest in manifests if manifest.path not in names]

    def _vectors(self, before: Sequence[Manifest], snapshot: Snapshot) -> list[Manifest]:
        """Return manifests of the snapshot's deletion vectors. Each index file is converted once."""
        indexes = [
            index_entry
            for index_entry in index_entries(self.data.store, snapshot)
            if index_entry.index_type == DELETION_VECTORS
        ]
        if not indexes:
            return []
        known: dict[str, list[IcebergEntry]] = {}
        for manifest in before:
            for entry in self._live(manifest):
                known.setdefault(entry.path, []).append(entry.as_existing())
        entries = (entry for index in indexes for entry in self._vectors_of(index, known, snapshot.id))
        return self.files.write(entries, Content.DELETES, snapshot.id)

    def _vectors_of(
        self, index: IndexEntry, known: dict[str, list[IcebergEntry]], snapshot_id: int
    ) -> list[IcebergEntry]:
        store, place = self.data.store, self.files.place
        uri = place.uri_of_file(puffin_name(index.name))
        if uri in known:
            return known[uri]
        path = external(index.external_path) or store.paths.index_file(
            index.name, self.data.folder(index.partition), index.bucket
        )
        ranges = index.vector_ranges or ()
        data_files = [self.data.uri_in((index.partition, index.bucket), range_.data_file) for range_ in ranges]
        puffin = puffin_of(store.storage.read(path), ranges, data_files, path)
        self.files.put(puffin_name(index.name), puffin.data)
        records = (self.data.vector_record(uri, len(puffin.data), blob, index.partition) for blob in puffin.blobs)
        return [new_entry(snapshot_id, record) for record in records]
