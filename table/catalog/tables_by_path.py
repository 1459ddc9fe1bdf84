"""A catalog as one session sees it: the tables of the catalog, and tables in other folders by names of the session."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.table.catalog.base import CatalogBackend, RepairedTable, split_name
from penstock.table.catalog.kept_views import KeptView
from penstock.table.catalog.path_tables import open_store
from penstock.table.meta.store import TableStore
from penstock.table.schema.table_schema import TableSchema


class TablesByPath(CatalogBackend):
    """A catalog with further tables, whose names are forgotten with the session; their folders stay as they are."""

    def __init__(self, catalog: CatalogBackend, options: Mapping[str, str]) -> None:
        """Begin without further tables. `options` open the stores that contain them."""
        self._catalog, self._options = catalog, options
        self._paths: dict[str, str] = {}

    def add(self, name: str, path: str) -> None:
        """Add the table in a folder under a name that the catalog does not have."""
        self._paths[name] = path

    def path_of(self, name: str) -> str | None:
        """Return the folder of a table that only the session has."""
        return self._paths.get(name)

    @property
    def longest_name(self) -> int:
        return self._catalog.longest_name

    @property
    def owns_versions(self) -> bool:
        return self._catalog.owns_versions

    @property
    def places_by_name(self) -> bool:
        return not self._paths and self._catalog.places_by_name

    def is_missing(self) -> bool:
        return self._catalog.is_missing()

    def check(self) -> str:
        return self._catalog.check()

    def databases(self) -> list[str]:
        return self._catalog.databases()

    def has_database(self, database: str) -> bool:
        return self._catalog.has_database(database)

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        self._catalog.create_database(database, properties)

    def database_properties(self, database: str) -> dict[str, str]:
        return self._catalog.database_properties(database)

    def alter_database(self, database: str, changes: Mapping[str, str | None]) -> None:
        self._catalog.alter_database(database, changes)

    def drop_database(self, database: str) -> None:
        self._catalog.drop_database(database)
        self._paths = {name: path for name, path in self._paths.items() if split_name(name)[0] != database}

    def tables(self, database: str) -> list[str]:
        return sorted({*self._catalog.tables(database), *self._of(database)})

    def possible_tables(self, database: str) -> list[str]:
        return sorted({*self._catalog.possible_tables(database), *self._of(database)})

    def audit(self, name: str) -> Mapping[str, object]:
        return {} if name in self._paths else self._catalog.audit(name)

    def _of(self, database: str) -> list[str]:
        return [split_name(name)[1] for name in self._paths if split_name(name)[0] == database]

    def views(self, database: str) -> list[str]:
        return self._catalog.views(database)

    def view(self, name: str) -> KeptView | None:
        return None if name in self._paths else self._catalog.view(name)

    def create_view(self, view: KeptView) -> bool:
        return self._catalog.create_view(view)

    def replace_view(self, view: KeptView) -> None:
        self._catalog.replace_view(view)

    def rename_view(self, name: str, new_name: str) -> None:
        self._catalog.rename_view(name, new_name)

    def drop_view(self, name: str) -> None:
        self._catalog.drop_view(name)

    def has_table(self, name: str) -> bool:
        return name in self._paths or self._catalog.has_table(name)

    def open(self, name: str, branch: str | None) -> TableStore:
        path = self._paths.get(name)
        return self._catalog.open(name, branch) if path is None else open_store(path, self._options, branch)

    def create_table(self, name: str, schema: TableSchema) -> bool:
        return name not in self._paths and self._catalog.create_table(name, schema)

    def schema_at(self, path: str) -> TableSchema | None:
        return self._catalog.schema_at(path)

    def keeps_files(self, name: str) -> bool:
        return name in self._paths or self._catalog.keeps_files(name)

    def drop_table(self, name: str) -> None:
        """Drop a table. A table in another folder loses only its name."""
        if self._paths.pop(name, None) is None:
            self._catalog.drop_table(name)

    def rename_table(self, name: str, new_name: str) -> None:
        if name in self._paths:
            raise ConfigError(
                f"{name} is in another folder, and cannot be renamed", hint="DROP TABLE, and CREATE it with its path"
            )
        self._catalog.rename_table(name, new_name)

    def repair(self, name: str | None) -> list[RepairedTable]:
        return self._catalog.repair(name)
