"""The files of a metadata folder that no kept version of the Iceberg metadata names: a writer that died left them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

from penstock.errors import ConfigError, TableCorrupt
from penstock.storage.base import Entry
from penstock.table.iceberg.manifest_files import ManifestFiles
from penstock.table.iceberg.manifests import Content, Manifest
from penstock.table.iceberg.metadata import parse_metadata
from penstock.table.iceberg.place import IcebergPlace
from penstock.table.iceberg.types import is_enabled
from penstock.table.iceberg.vectors import puffin_names
from penstock.table.meta.store import TableStore
from penstock.table.options.iceberg import ICEBERG_DELETE_AFTER_COMMIT, ICEBERG_PREVIOUS_VERSIONS_MAX

log = logging.getLogger(__name__)
# The names that Penstock and Java Paimon give to files. Other files in the folder do not belong to the table.
_OURS = re.compile(r"snap-.+\.avro|.+-m\d+\.avro|.+\.puffin|v\d{1,18}\.metadata\.json|\..+\.tmp")
_VERSIONED = re.compile(r"v\d{1,18}\.metadata\.json")


def metadata_place(store: TableStore) -> IcebergPlace | None:
    """Return the metadata folder of the table; None if it does not exist or Penstock cannot write to it."""
    schema = store.schema()
    if not is_enabled(schema):
        return None
    try:
        return IcebergPlace.of(store, schema)
    except ConfigError:
        return None  # nothing was ever published: each commit logs the reason


def metadata_files(place: IcebergPlace) -> Iterator[tuple[str, Entry]]:
    """Yield the files of the folder that could be unused.

    Yield nothing if another catalog has written metadata of another form there: the files that it needs are not known.
    """
    listed = [entry for entry in place.storage.list(place.folder) if not entry.is_dir]
    names = [entry.name for entry in listed if entry.name.endswith(".metadata.json")]
    if all(_VERSIONED.fullmatch(name) for name in names):
        yield from ((f"{place.folder}/{entry.name}", entry) for entry in listed if _OURS.fullmatch(entry.name))


def used_metadata_files(store: TableStore, place: IcebergPlace) -> set[str]:
    """Return the paths of the files that the newest version or a kept one names; all files if one cannot be read."""
    files = ManifestFiles(place, store.schema(), store.ambient.new_uuid)
    try:
        names = _UsedNames(place, files).names()
    except TableCorrupt as reason:
        log.warning("event=iceberg_files_kept table=%s reason=%s", store.name, reason)
        return {path for path, _ in metadata_files(place)}
    return {f"{place.folder}/{name}" for name in names}


class _UsedNames:
    """Collects the names of files. Each manifest list and manifest is read once."""

    def __init__(self, place: IcebergPlace, files: ManifestFiles) -> None:
        self._place, self._files = place, files
        self._names: set[str] = set()

    def names(self) -> set[str]:
        newest = self._place.newest_version()
        if newest is None:
            return set()
        options = self._files.schema.typed
        first = newest - options[ICEBERG_PREVIOUS_VERSIONS_MAX] if options[ICEBERG_DELETE_AFTER_COMMIT] else 0
        for version in self._place.versions():
            if version >= first:
                self._add_version(version, must=version >= newest)
        return self._names

    def _add_version(self, version: int, *, must: bool) -> None:
        """Add the files that a version names. An older one also names files of expired snapshots, which are deleted."""
        data, path = self._place.read_version(version), self._place.path_of_version(version)
        if data is None:
            return  # deleted since the listing
        self._names.add(path.rpartition("/")[2])
        for snapshot in parse_metadata(data, path).snapshots:
            name = snapshot.manifest_list.rpartition("/")[2]
            if name in self._names:
                continue
            try:
                for manifest in self._files.read_list(snapshot.manifest_list):
                    self._add_manifest(manifest)
            except FileNotFoundError as reason:
                if must:
                    raise TableCorrupt(
                        "a file that the Iceberg metadata names does not exist",
                        file=path,
                        hint="penstock publish-iceberg  makes the metadata again from the table",
                    ) from reason
                continue
            self._names.add(name)

    def _add_manifest(self, manifest: Manifest) -> None:
        if manifest.name in self._names:
            return
        if manifest.content is Content.DELETES:
            self._names |= puffin_names(entry.path for entry in self._files.read(manifest))
        self._names.add(manifest.name)
