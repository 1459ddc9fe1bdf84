"""The folder with the Iceberg metadata of a table, its versions, and the URIs that the metadata contains."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.storage.base import Storage, put_if_absent, read_hint
from penstock.table.meta.paths import DATABASE_SUFFIX
from penstock.table.meta.store import TableStore
from penstock.table.options.iceberg import ICEBERG_STORAGE, ICEBERG_STORAGE_LOCATION
from penstock.table.schema.table_schema import TableSchema

_VERSION = re.compile(r"v(\d{1,18})\.metadata\.json")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(//[^/]*)?(?=/)")
HINT = "version-hint.text"


@dataclass(frozen=True, slots=True)
class IcebergPlace:
    """The metadata folder of a table whose folder is `root`.

    `prefix` is what precedes the paths of the store in URIs: nothing for local disks, else the scheme and the bucket.
    """

    storage: Storage
    root: str
    folder: str
    prefix: str

    @classmethod
    def of(cls, store: TableStore, schema: TableSchema) -> IcebergPlace:
        root = store.paths.root
        return cls(store.storage, root, _folder(root, schema), store.storage.url_prefix)

    @property
    def location(self) -> str:
        return self.uri(self.root)

    def uri(self, path: str) -> str:
        return self.prefix + path

    def uri_of_file(self, name: str) -> str:
        """Return the URI of a file of the metadata folder."""
        return self.uri(f"{self.folder}/{name}")

    def path_of_file(self, uri: str) -> str:
        """Return the path of a file of the metadata folder, for any form of URI that another program uses."""
        return f"{self.folder}/{uri.rpartition('/')[2]}"

    def path_of_version(self, version: int) -> str:
        return f"{self.folder}/v{version}.metadata.json"

    def read_version(self, version: int) -> bytes | None:
        """Return the metadata of a version, or None if there is no such version."""
        try:
            return self.storage.read(self.path_of_version(version))
        except FileNotFoundError:
            return None

    def create_version(self, version: int, data: bytes) -> bool:
        """Write a version. Return False when another writer has written it."""
        return put_if_absent(self.storage, self.path_of_version(version), data)

    def replace_version(self, version: int, data: bytes) -> None:
        self.storage.write(self.path_of_version(version), data)

    def newest_version(self) -> int | None:
        """Return the newest version: the one of the hint or after it, or by a listing if the hint is wrong."""
        newest = self.hinted_version()
        if newest is None or not self._exists(newest):
            newest = max(self.versions(), default=None)
        while newest is not None and self._exists(newest + 1):
            newest += 1
        return newest

    def versions(self) -> list[int]:
        """Return all versions, by listing."""
        matches = (_VERSION.fullmatch(entry.name) for entry in self.storage.list(self.folder) if not entry.is_dir)
        return sorted(int(match[1]) for match in matches if match is not None)

    def _exists(self, version: int) -> bool:
        return self.storage.exists(self.path_of_version(version))

    def hinted_version(self) -> int | None:
        """Return the version that readers without a catalog find."""
        return read_hint(self.storage, f"{self.folder}/{HINT}")

    def write_hint(self, version: int, *, back: bool = False) -> None:
        """Store the newest version for readers. Unless `back`, a later version that another writer stored is kept."""
        hinted = self.hinted_version()
        if hinted == version or (not back and hinted is not None and hinted > version and self._exists(hinted)):
            return
        self.storage.write(f"{self.folder}/{HINT}", str(version).encode())


def _folder(root: str, schema: TableSchema) -> str:
    options = schema.typed
    usual = "table-location" if options[ICEBERG_STORAGE] == "table-location" else "catalog-location"
    if (options[ICEBERG_STORAGE_LOCATION] or usual) == "table-location":
        return f"{root}/metadata"
    parent, _, table = root.rpartition("/")
    warehouse, _, database = parent.rpartition("/")
    if not database.endswith(DATABASE_SUFFIX):
        raise ConfigError(
            "Iceberg metadata outside of the table needs a table in a database of a warehouse",
            path=root,
            hint="set metadata.iceberg.storage = table-location",
        )
    return f"{warehouse}/iceberg/{database.removesuffix(DATABASE_SUFFIX)}/{table}/metadata"


def same_place(uri: str, other: str) -> bool:
    """Return whether two URIs are the same location. The scheme may be missing in one, and `s3a` is `s3`."""
    return _bare(uri) == _bare(other)


def _bare(uri: str) -> str:
    return _SCHEME.sub("", uri, count=1).rstrip("/")
