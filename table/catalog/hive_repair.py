"""Makes the entries of a Hive metastore agree with the tables in the warehouse, which decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.catalog.base import CatalogBackend, RepairedTable, split_name
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.catalog.hive_entries import HiveEntries, check_case
from penstock.table.metastore.hive_objects import is_external, is_paimon
from penstock.table.schema.schema_files import SchemaFiles


@dataclass(frozen=True, slots=True)
class HiveRepair:
    """A repair of `catalog`, whose entries are `entries`; `files` are the tables in its warehouse, by their folders."""

    catalog: CatalogBackend
    files: FileCatalog
    entries: HiveEntries
    warehouse: str

    def repair(self, name: str | None) -> list[RepairedTable]:
        """Repair a table, the tables of a database, or all; one of several that cannot be repaired is refused alone."""
        if name is None:
            databases = sorted({*self.catalog.databases(), *self.files.databases()})
            return [table for database in databases for table in self._database(database)]
        if "." not in name:
            return self._database(name)
        return [self._table(name, self._places(split_name(name)[0]))]

    def _database(self, database: str) -> list[RepairedTable]:
        if not self.catalog.has_database(database):
            if not self.files.has_database(database):
                raise ConfigError(
                    f"there is no database {database!r}",
                    warehouse=self.warehouse,
                    hint="the database needs a folder NAME.db in the warehouse, or an entry in the metastore",
                )
            self.catalog.create_database(database, {})
        place = self.entries.metastore.database(database).locationUri.rstrip("/")
        storage, root = self.entries.folders.open(place)
        found = sorted(entry.name for entry in storage.list(root) if entry.is_dir)
        places = self._places(database)
        with_schema = {
            table
            for table in found
            if SchemaFiles(storage, f"{root}/{table}").ids() and places.get(f"{place}/{table}", table) == table
        }
        # Tables may also be in other places than the folder of their database.
        tables = sorted({*with_schema, *self.catalog.tables(database)})
        return [self._attempt(f"{database}.{table}", places) for table in tables]

    def _attempt(self, name: str, places: Mapping[str, str]) -> RepairedTable:
        """Repair a table of several: one that cannot be repaired does not stop the others."""
        try:
            return self._table(name, places)
        except ConfigError as error:
            return RepairedTable(name, "refused", error.message)

    def _table(self, name: str, places: Mapping[str, str]) -> RepairedTable:
        database, table = split_name(name)
        check_case(table, "table")
        found = self.entries.find(name)
        usual = self.entries.folders.usual(database, table)
        location = self.entries.location(name) if found else usual
        owner = places.get(usual, table)
        if found is None and owner != table:
            raise ConfigError(
                f"the folder is the place of the table {database}.{owner}, which has been renamed",
                table=name,
                path=usual,
                hint=f"use the name {database}.{owner}, or rename that table",
            )
        moved = found is not None and owner == table and not is_external(found) and self._was_moved(location, usual)
        if moved:
            self.entries.relocate(name, usual)
            location = usual
        store = self.entries.store(name, location)
        repaired = self.entries.commits.register(store, location, exists=found is not None)
        if not moved:
            return repaired
        self.entries.commits.partitions.replace(store)
        return RepairedTable(name, "updated")

    def _places(self, database: str) -> dict[str, str]:
        """Return the name of each table of a database by its location; a rename may have left it in its old folder."""
        found = [table for table in self.entries.metastore.tables(database) if is_paimon(table)]
        return {table.sd.location.rstrip("/"): table.tableName for table in found if table.sd and table.sd.location}

    def _was_moved(self, location: str, usual: str) -> bool:
        """Return whether a rename has moved a folder to its usual place, and ended before the metastore named it."""
        folders = self.entries.folders
        return not SchemaFiles(*folders.open(location)).ids() and bool(SchemaFiles(*folders.open(usual)).ids())
