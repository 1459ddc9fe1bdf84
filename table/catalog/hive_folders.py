"""The folders of tables in a Hive metastore: their locations, and the first schema file in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from penstock.storage.base import Storage
from penstock.storage.conditional_create import probe
from penstock.storage.open import open_storage
from penstock.table.metastore.hive_client import HiveMetastore
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_folder import create_first_schema
from penstock.table.schema.table_schema import TableSchema

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:.*")


@dataclass(frozen=True, slots=True)
class HiveFolders:
    """The locations of a metastore's tables, opened with the options of the catalog for stores."""

    metastore: HiveMetastore
    store_options: dict[str, str]
    _probed: set[str] = field(default_factory=set)  # folders of databases

    def open(self, location: str) -> tuple[Storage, str]:
        """Return the storage of a location, and the folder in it."""
        storage, root = open_storage(location, self.store_options)
        return storage, root.rstrip("/")

    def usual(self, database: str, table: str) -> str:
        """Return the location that tables have by default, below the location of their database."""
        return f"{self.metastore.database(database).locationUri.rstrip('/')}/{table}"

    def create_schema(self, location: str, schema: TableSchema) -> TableSchema | None:
        """Create the first schema file of a table; return the newest schema if the folder has one already."""
        storage, root = self.open(location)
        self._probe(storage, root)
        files = SchemaFiles(storage, root)
        found = files.latest()
        return files.latest() if found is None and not create_first_schema(storage, root, schema) else found

    def _probe(self, storage: Storage, root: str) -> None:
        folder = root.rpartition("/")[0]
        if folder not in self._probed:
            probe(storage, folder)
            self._probed.add(folder)


def uri(location: str) -> str:
    """Return the location with a scheme, as the metastore stores it."""
    return location if _SCHEME.fullmatch(location) else f"file:{Path(location).expanduser().absolute()}"


def path_of(location: str) -> str:
    """Return the path of a location without its scheme, which the metastore may write in another form."""
    return urlsplit(uri(location)).path.rstrip("/")
