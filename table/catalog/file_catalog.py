"""The file system catalog: databases are folders of the warehouse, tables are folders with a schema in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.storage.catalog_options import check_names
from penstock.storage.conditional_create import probe
from penstock.storage.environment import Environment
from penstock.storage.local import LocalStorage
from penstock.storage.open import open_storage
from penstock.table.catalog.base import CatalogBackend, split_name
from penstock.table.catalog.unfinished import finished_by
from penstock.table.meta.paths import DATABASE_SUFFIX
from penstock.table.meta.store import TableStore
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_folder import create_first_schema, delete_table_folder
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.names import path_step


class FileCatalog(CatalogBackend):
    """A warehouse folder: `<root>/<database>.db/<table>`, in any store.

    A store that cannot create a file atomically only if it does not exist is refused, by a probe before the first
    database or table is created.
    """

    def __init__(
        self, storage: Storage, root: str, ambient: Environment | None = None, *, warehouse: str | None = None
    ) -> None:
        """Open the warehouse at a path within a store; messages call it `warehouse`."""
        self._storage, self._root = storage, root.rstrip("/")
        self._warehouse = warehouse or self._root
        self._ambient = ambient or Environment()
        self._probed = False

    @property
    def longest_name(self) -> int:
        return self._storage.longest_name

    @property
    def places_by_name(self) -> bool:
        return True

    def is_missing(self) -> bool:
        return not self._storage.list(self._root)

    def check(self) -> str:
        """Create, refuse and delete a file in the warehouse, or in the folder where the first database creates it."""
        folder = Path(self._root)
        if isinstance(self._storage, LocalStorage) and not folder.exists():
            above = next(parent for parent in folder.parents if parent.exists())
            probe(self._storage, str(above))
            return f"{self._warehouse.removeprefix('file://')} will be made; {above} can be written to"
        probe(self._storage, self._root)
        return f"{self._warehouse} can be written to, and never replaces a file that exists"

    def databases(self) -> list[str]:
        names = [entry.name for entry in self._storage.list(self._root) if entry.is_dir]
        return sorted(name.removesuffix(DATABASE_SUFFIX) for name in names if name.endswith(DATABASE_SUFFIX))

    def has_database(self, database: str) -> bool:
        return self._storage.exists(self._database(database))

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        if properties:
            raise ConfigError(
                "a database of a warehouse folder has no properties",
                database=database,
                properties=", ".join(sorted(properties)),
                hint="leave them out, or use a metastore that keeps them",
            )
        self._probe()
        self._storage.mkdirs(self._database(database))

    def database_properties(self, database: str) -> dict[str, str]:
        return {}

    def drop_database(self, database: str) -> None:
        tables = self.possible_tables(database)
        for table in tables:
            delete_table_folder(self._storage, self._table(f"{database}.{table}"))
        self._storage.delete_tree(self._database(database))
        for table in tables:
            self._forget(f"{database}.{table}")

    def tables(self, database: str) -> list[str]:
        """Return the folders of the database that contain a schema."""
        return [table for table in self.possible_tables(database) if self.has_table(f"{database}.{table}")]

    def possible_tables(self, database: str) -> list[str]:
        """Return all folders of the database."""
        return sorted(entry.name for entry in self._storage.list(self._database(database)) if entry.is_dir)

    def has_table(self, name: str) -> bool:
        return SchemaFiles(self._storage, self._table(name)).exist()

    def open(self, name: str, branch: str | None) -> TableStore:
        return TableStore.open(self._storage, self._table(name), branch, self._ambient, catalog_name=name)

    def create_table(self, name: str, schema: TableSchema) -> bool:
        folder = self._table(name)
        if SchemaFiles(self._storage, folder).ids():
            return False
        self._probe()
        # If two processes create the table at once, it is created by the process that creates the first schema file.
        return create_first_schema(self._storage, folder, schema)

    def drop_table(self, name: str) -> None:
        delete_table_folder(self._storage, self._table(name))
        self._forget(name)

    def rename_table(self, name: str, new_name: str) -> None:
        """Move the table's folder. Not atomic in object stores, where every file is copied."""
        source, target, copied = self._table(name), self._table(new_name), list[bool]()

        def rest() -> str:
            try:
                if copied or not self.has_table(name):
                    return f"the table is complete as {new_name}; drop {name} if it is still there"
                if self._storage.exists(target):
                    return f"the table is complete as {name}: delete the folder, and rename it again"
            except OSError:
                return f"if there is {name} when the store answers again, delete the folder, and rename the table again"
            return "nothing was moved: rename it again"

        with finished_by("the table could not be renamed", rest, table=name, path=target):
            try:
                self._storage.rename_tree(source, target, lambda: copied.append(True))
            except FileExistsError as taken:
                if self.has_table(new_name):  # a rename that was given up may arrive late
                    raise ConfigError(
                        "a table with the new name has appeared since this rename began",
                        table=name,
                        path=target,
                        hint=f"it may be {name} itself, from an earlier attempt of the rename: compare the two tables",
                    ) from taken
                raise ConfigError(
                    "the folder of the new name contains files without a table",
                    table=name,
                    path=target,
                    hint="move or delete these files, and rename the table again",
                ) from taken
        self._forget(name)

    def _database(self, database: str) -> str:
        return f"{self._root}/{path_step(database, 'database')}{DATABASE_SUFFIX}"

    def _table(self, name: str) -> str:
        database, table = split_name(name)
        return f"{self._database(database)}/{path_step(table, 'table')}"

    def _forget(self, name: str) -> None:
        """Delete this machine's caches of a table that was dropped or moved."""
        from penstock.table.dynamic_buckets.local_caches import forget_table  # much code, and tasks drop no tables

        forget_table(self._table(name))

    def _probe(self) -> None:
        # Once per process, because a probe writes and deletes files.
        if not self._probed:
            probe(self._storage, self._root)
            self._probed = True


def open_warehouse(warehouse: str, options: Mapping[str, str], ambient: Environment) -> FileCatalog:
    """Open the warehouse at a path or URL; `options` configure its store."""
    check_names(options)
    return FileCatalog(*open_storage(warehouse, options), ambient, warehouse=warehouse)
