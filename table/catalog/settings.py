"""The settings of a catalog, which Spark sends to tasks, and what each process keeps open for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.base import CatalogBackend
from penstock.table.catalog.registry import open_backend, options_of_store
from penstock.table.meta.store import TableStore
from penstock.table.options.definition import PATH
from penstock.table.schema.table_schema import TableSchema
from penstock.table.usable import check_name, check_usable

if TYPE_CHECKING:
    from penstock.table.catalog.catalog import Catalog

_RENAMED = "; rename a source table with --table-mapping"


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The warehouse and the options of a catalog.

    `options` may contain references to secrets; they are resolved when the catalog is opened.
    """

    warehouse: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, warehouse: str, options: Mapping[str, str]) -> CatalogSettings:
        """Build from a mapping of options."""
        return cls(warehouse, tuple(sorted(options.items())))

    @property
    def store_options(self) -> dict[str, str]:
        """Return the options for other stores, such as a checkpoint's: all options that are not options of catalogs."""
        return options_of_store(dict(self.options))

    def open(self) -> Catalog:
        """Return the catalog as users see it."""
        from penstock.table.catalog.catalog import Catalog  # tasks need no part of it, and it takes long to import

        return Catalog(self.warehouse, dict(self.options), backend=self.backend)

    @property
    def backend(self) -> CatalogBackend:
        """Return the catalog of the kind that the options name. A process opens it once."""
        return _backend(self)

    def store(self, table: str) -> TableStore:
        """Return the store of a table, which a process opens once; see `opened`."""
        return _store(self, table, _moves[self, table])

    def opened(self, table: str) -> TableStore:
        """Open the table as it is now.

        `store` may return a cached store from before the table was dropped and created again.
        """
        return self.backend.open(_checked(table), None)

    def follow(self, table: str) -> bool:
        """Return whether another table, in another folder, has got the name; `store` then returns that table's store.

        This costs a request to the catalog, unless folders follow from names.
        """
        if self.backend.places_by_name or self.opened(table).paths.root == self.store(table).paths.root:
            return False
        _moves[self, table] += 1
        return True

    def layout(self, table: str, schema_id: int) -> Layout:
        """Return the layout of a table at a version of its schema, which a process reads once."""
        return _layout(self, table, schema_id)

    def now_millis(self) -> int:
        """Return the time of this process's clock, with which new schema versions are dated."""
        return Environment().now_millis()

    def databases(self) -> list[str]:
        """Return the databases that exist now."""
        return self.backend.databases()

    def tables(self, database: str) -> list[str]:
        """Return the names, as `database.table`, among which are all tables of the database, by one request."""
        return [f"{database}.{table}" for table in self.backend.possible_tables(database)]

    def created(self, table: str, schema: TableSchema) -> TableSchema:
        """Create a table by its first schema version, and its database. If it exists, return its newest version.

        ConfigError if the schema chooses a folder: several new tables may get the same options.
        """
        if PATH.key in schema.options:
            raise ConfigError(
                "a pipeline does not choose the folders of its tables: several would share one",
                table=table,
                path=schema.options[PATH.key],
                hint="remove path from table-options; create tables that are to be elsewhere before the start",
            )
        check_usable(schema)
        return schema if self.backend.create_table(_checked(table), schema) else self.store(table).schema()


# A worker process serves many batches, and the cached objects never change.
@lru_cache(maxsize=8)
def _backend(settings: CatalogSettings) -> CatalogBackend:
    return open_backend(settings.warehouse, dict(settings.options), Environment())


# How often a table's name was found to belong to another table, in another folder.
_moves: Counter[tuple[CatalogSettings, str]] = Counter()


@lru_cache(maxsize=2048)
def _store(settings: CatalogSettings, table: str, moves: int) -> TableStore:
    return settings.opened(table)


@lru_cache(maxsize=4096)
def _layout(settings: CatalogSettings, table: str, schema_id: int) -> Layout:
    return Layout.of(settings.store(table).schemas.get(schema_id))


def forget_tables() -> None:
    """Clear the caches for the next run of the process.

    A table may have been dropped and created again, and the path of a warehouse may be relative to another folder.
    """
    _backend.cache_clear()
    _store.cache_clear()
    _layout.cache_clear()


def _checked(table: str) -> str:
    database, _, name = table.partition(".")
    check_name(database, "database")
    check_name(name, "table", more=_RENAMED)
    return table
