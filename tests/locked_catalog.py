"""A second kind of catalog: it keeps names in memory, tables anywhere, and locks a table for each commit.

Its store overwrites files, as the stores do on which Java takes a lock: without the lock, commits would be lost.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.errors import CommitConflict
from penstock.storage.environment import Environment
from penstock.storage.local import LocalStorage
from penstock.table.catalog import registry
from penstock.table.catalog.base import CatalogBackend
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import FileCommits, TableMissing, TableStore
from penstock.table.schema.changes import Check, SchemaChange
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_schema import TableSchema


@dataclass
class Metastore:
    """The server: names of databases and tables, and one lock per table."""

    databases: dict[str, dict[str, str]] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    locks: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))
    wait_seconds: float = 240.0
    snapshots: list[tuple[str | None, int]] = field(default_factory=list)
    schemas: list[tuple[str | None, int]] = field(default_factory=list)
    exclusive: list[str | None] = field(default_factory=list)
    files: int = 0

    @contextmanager
    def locked(self, folder: str) -> Iterator[None]:
        """Hold the lock of a table; CommitConflict when it is not obtained in time."""
        if not self.locks[folder].acquire(timeout=self.wait_seconds):
            raise CommitConflict("the table is locked by another writer", file=folder, hint="try again later")
        try:
            yield
        finally:
            self.locks[folder].release()


METASTORES: dict[str, Metastore] = defaultdict(Metastore)  # by warehouse, as by the address of a server


@dataclass(frozen=True, slots=True)
class OverwritingStorage(LocalStorage):
    """A store without conditional writes: it looks whether a file exists, and writes it a moment later."""

    moment_s = 0.002

    def create(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        time.sleep(self.moment_s)
        self.write(path, data)
        return True


@dataclass(frozen=True, slots=True)
class LockedCommits(FileCommits):
    """Commits to one table under its lock. They are pickled into tasks, which reach the server by its address."""

    address: str

    def commit_snapshot(self, store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        server = METASTORES[self.address]
        with server.locked(store.paths.root):
            created = FileCommits.commit_snapshot(self, store, snapshot, entries)
            if created:
                server.snapshots.append((store.catalog_name, snapshot.id))
            return created

    def evolve_schema(self, store: TableStore, changes: Sequence[SchemaChange], check: Check) -> TableSchema:
        server = METASTORES[self.address]
        with server.locked(store.paths.root):
            evolved = FileCommits.evolve_schema(self, store, changes, check)
            server.schemas.append((store.catalog_name, evolved.id))
            return evolved

    @contextmanager
    def exclusive(self, store: TableStore) -> Iterator[None]:
        server = METASTORES[self.address]
        with server.locked(store.paths.root):
            server.exclusive.append(store.catalog_name)
            yield


class LockedCatalog(CatalogBackend):
    """The catalog of the server at an address; new tables are created below the folder `place`."""

    def __init__(self, address: str, place: str, ambient: Environment) -> None:
        self._server, self._address, self._place, self._ambient = METASTORES[address], address, place, ambient
        self._storage = OverwritingStorage(sync=False)

    @property
    def longest_name(self) -> int:
        return self._storage.longest_name

    def check(self) -> str:
        return f"{self._address} answers"

    def databases(self) -> list[str]:
        return sorted(self._server.databases)

    def has_database(self, database: str) -> bool:
        return database in self._server.databases

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        self._server.databases[database] = dict(properties)

    def database_properties(self, database: str) -> dict[str, str]:
        return dict(self._server.databases[database])

    def drop_database(self, database: str) -> None:
        for table in self.tables(database):
            self.drop_table(f"{database}.{table}")
        del self._server.databases[database]

    def tables(self, database: str) -> list[str]:
        names = (name.split(".", 1) for name in self._server.folders)
        return sorted(table for home, table in names if home == database)

    def has_table(self, name: str) -> bool:
        return name in self._server.folders

    def open(self, name: str, branch: str | None) -> TableStore:
        if name not in self._server.folders:
            raise TableMissing("there is no table", table=name)
        commits = LockedCommits(self._address)
        return TableStore.open(self._storage, self._server.folders[name], branch, self._ambient, commits, name)

    def create_table(self, name: str, schema: TableSchema) -> bool:
        self._server.files += 1
        folder = f"{self._place}/t{self._server.files}"
        with self._server.locked(name):
            if name in self._server.folders:
                return False
            SchemaFiles(self._storage, folder).create(schema)
            self._server.databases.setdefault(name.split(".", 1)[0], {})
            self._server.folders[name] = folder
            return True

    def drop_table(self, name: str) -> None:
        self._storage.delete_tree(self._server.folders.pop(name))

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename the table; its files stay where they are."""
        self._server.folders[new_name] = self._server.folders.pop(name)


def open_locked(warehouse: str, options: Mapping[str, str], ambient: Environment) -> LockedCatalog:
    """Open the catalog, as the registry calls it."""
    return LockedCatalog(warehouse, options["place"], ambient)


# Beside the kind `locked`, one whose names are lower case, and whose warehouse is no folder.
LOWER_CASE = registry.CatalogKind(open_locked, is_lower_case=True, names_warehouse=True, options=frozenset({"place"}))


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install this kind as `metastore` = `locked`, and as `lower`, as a distribution does."""
    info = folder / "locked-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: locked\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\nlocked = {__name__}:open_locked\nlower = {__name__}:LOWER_CASE\n"
    )
    monkeypatch.syspath_prepend(str(folder))
