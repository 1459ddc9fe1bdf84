"""Deletion of the files in the metadata folder that the newest Iceberg metadata does not need any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.errors import TableCorrupt
from penstock.table.iceberg.manifest_files import ManifestFiles
from penstock.table.iceberg.manifests import Content, Manifest
from penstock.table.iceberg.metadata import IcebergMetadata, IcebergSnapshot
from penstock.table.iceberg.place import IcebergPlace
from penstock.table.iceberg.vectors import puffin_names
from penstock.table.options.iceberg import ICEBERG_DELETE_AFTER_COMMIT, ICEBERG_PREVIOUS_VERSIONS_MAX


@dataclass(slots=True)
class ExpiredFiles:
    """Deletes files of one metadata folder."""

    place: IcebergPlace
    files: ManifestFiles
    _read: dict[str, list[Manifest]] = field(default_factory=dict)

    def delete(self, old: IcebergMetadata | None, new: IcebergMetadata, newest: int | None, *, usable: bool) -> None:
        """Delete files that only expired snapshots of `old` need, and old versions.

        `newest` is the number of the newest version before the commit. Unless it was `usable`, only the new version is
        kept.
        """
        if old is not None:
            self._delete_snapshots(old.snapshots, new.snapshots)
        options = self.files.schema.typed
        if not usable:
            self._delete_versions(number for number in self.place.versions() if number != new.current_id)
        elif newest is not None and newest > new.current_id:
            self._delete_versions(range(newest, new.current_id, -1))
        elif newest is not None and options[ICEBERG_DELETE_AFTER_COMMIT]:
            kept = options[ICEBERG_PREVIOUS_VERSIONS_MAX]
            self._delete_versions(range(max(1, newest - kept), new.current_id - kept))

    def _delete_versions(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.place.storage.delete(self.place.path_of_version(number))

    def delete_names(self, names: Iterable[str]) -> None:
        """Delete files of the metadata folder."""
        for name in sorted(names):
            self.place.storage.delete(f"{self.place.folder}/{name}")

    def _delete_snapshots(self, old: Sequence[IcebergSnapshot], new: Sequence[IcebergSnapshot]) -> None:
        """Delete the manifest lists that only `old` has, and their files that the kept snapshots around do not list.

        A file in two snapshots is in all snapshots between them, so it is enough to compare a kept snapshot on each
        side.
        """
        lists = {snapshot.manifest_list for snapshot in new}
        run: list[IcebergSnapshot] = []
        before: IcebergSnapshot | None = None
        for snapshot in old:
            if snapshot.manifest_list not in lists:
                run.append(snapshot)
                continue
            self._delete_run(run, [before, snapshot])
            run, before = [], snapshot
        self._delete_run(run, [before, next((snapshot for snapshot in new if snapshot not in old), None)])

    def _delete_run(self, run: Sequence[IcebergSnapshot], around: Sequence[IcebergSnapshot | None]) -> None:
        if not run:
            return
        kept = self._manifests(snapshot for snapshot in around if snapshot is not None)
        gone = {path: manifest for path, manifest in self._manifests(run).items() if path not in kept}
        vectors = [manifest for manifest in gone.values() if manifest.content is Content.DELETES]
        names = {manifest.name for manifest in gone.values()}
        if vectors:
            names |= self._puffins(vectors) - self._puffins(
                manifest for manifest in kept.values() if manifest.content is Content.DELETES
            )
        self.delete_names(names)
        self.delete_names(snapshot.manifest_list.rpartition("/")[2] for snapshot in run)

    def _manifests(self, snapshots: Iterable[IcebergSnapshot]) -> dict[str, Manifest]:
        found: dict[str, Manifest] = {}
        for snapshot in snapshots:
            uri = snapshot.manifest_list
            try:
                if uri not in self._read:
                    self._read[uri] = self.files.read_list(uri)
            except (FileNotFoundError, TableCorrupt):
                continue  # an earlier attempt to delete it ended here
            found.update((manifest.path, manifest) for manifest in self._read[uri])
        return found

    def _puffins(self, manifests: Iterable[Manifest]) -> set[str]:
        names: set[str] = set()
        for manifest in manifests:
            try:
                names |= puffin_names(entry.path for entry in self.files.read(manifest))
            except (FileNotFoundError, TableCorrupt):
                continue
        return names
