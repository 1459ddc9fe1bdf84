"""The Hive catalog: names, places and columns of tables in a Hive metastore, which Java Paimon and Hive share.

The schema files in a table's folder decide; the metastore has the name, the place, and a copy of the columns.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.storage.open import open_storage
from penstock.table.catalog.base import CatalogBackend, RepairedTable, not_paimon, split_name
from penstock.table.catalog.external_tables import check_same, checked_path
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.catalog.hive_commits import HiveCommits, HiveLocks, check_describable
from penstock.table.catalog.hive_folders import HiveFolders, path_of, uri
from penstock.table.catalog.kept_views import KeptView, ViewColumn
from penstock.table.catalog.unfinished import finished_by
from penstock.table.meta.paths import DATABASE_SUFFIX
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.metastore.hive_client import HiveMetastore, NameExists, NameMissing
from penstock.table.metastore.hive_objects import (
    is_external,
    is_paimon,
    is_view,
    new_database,
    new_table,
    new_view,
    view_type,
)
from penstock.table.options.definition import PATH
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_folder import delete_table_folder
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import read_type

log = logging.getLogger(__name__)


class HiveCatalog(CatalogBackend):
    """A catalog whose databases and tables are in a metastore; new databases are created below the warehouse.

    Tables of the metastore that are not of Paimon are not listed, and are neither opened nor dropped.
    """

    def __init__(
        self,
        warehouse: str,
        store_options: Mapping[str, str],
        environment: Environment,
        metastore: HiveMetastore,
        locks: HiveLocks | None,
    ) -> None:
        """Use the names of the metastore. `locks` are held by commits; None if commits need no lock."""
        self._warehouse, self._environment, self._metastore = warehouse, environment, metastore
        self._commits = HiveCommits(metastore, locks)
        self._files = FileCatalog(*open_storage(warehouse, store_options), environment, warehouse=warehouse)
        self._folders = HiveFolders(metastore, dict(store_options))

    @property
    def longest_name(self) -> int:
        return self._files.longest_name

    def check(self) -> str:
        """Check the warehouse as a file system catalog does, and that the metastore answers."""
        warehouse = self._files.check()
        self.databases()
        return f"{self._metastore} answers; {warehouse}"

    def databases(self) -> list[str]:
        with self._metastore.session() as client:
            return sorted(client.get_all_databases())

    def has_database(self, database: str) -> bool:
        return database in self.databases()

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        _check_case(database, "database")
        given = dict(properties)
        location = given.pop("location", None) or f"{self._warehouse.rstrip('/')}/{database}{DATABASE_SUFFIX}"
        storage, root = self._folders.open(location)
        storage.mkdirs(root)
        with self._metastore.session() as client:
            client.create_database(new_database(database, uri(location), given))
        chosen = self._metastore.database(database).locationUri
        if path_of(chosen) != path_of(location):
            # Hive 4 keeps its warehouse for transactional tables, and puts other tables into the warehouse of external
            # ones.
            log.warning(
                "event=database_elsewhere database=%s requested=%s location=%s (the metastore has changed the "
                "location: tables are created there; create the database with another location to choose it)",
                database,
                location,
                chosen,
            )

    def database_properties(self, database: str) -> dict[str, str]:
        found = self._metastore.database(database)
        comment = {"comment": found.description} if found.description else {}
        return {**(found.parameters or {}), **comment, "location": found.locationUri}

    def alter_database(self, database: str, changes: Mapping[str, str | None]) -> None:
        found = self._metastore.database(database)
        properties = {**(found.parameters or {}), "comment": found.description, **changes}
        found.description = properties.pop("comment") or ""
        found.parameters = {key: text for key, text in properties.items() if text is not None}
        with self._metastore.session() as client:
            client.alter_database(database, found)
        if "comment" in changes and (self._metastore.database(database).description or "") != found.description:
            raise ConfigError(
                "the metastore did not change the comment of the database",
                database=database,
                metastore=str(self._metastore),
                hint="metastores of Hive 2 change no comment, and later ones remove none; other properties are changed",
            )

    def drop_database(self, database: str) -> None:
        """Delete the Paimon tables and the views of the database, and then it. Refused if it has other tables."""
        for table in self.tables(database):
            self.drop_table(f"{database}.{table}")
        for view in self.views(database):
            self.drop_view(f"{database}.{view}")
        with self._metastore.session() as client:
            # The metastore deletes no files, and refuses a database that still has tables of other kinds.
            client.drop_database(database, deleteData=False, cascade=False)

    def tables(self, database: str) -> list[str]:
        return sorted(table.tableName for table in self._metastore.tables(database) if is_paimon(table))

    def views(self, database: str) -> list[str]:
        return sorted(table.tableName for table in self._metastore.tables(database) if is_view(table))

    def view(self, name: str) -> KeptView | None:
        """Return a view, of Paimon or of Hive: both keep the text of the query alone."""
        found = self._found(name)
        if found is None or not is_view(found):
            return None
        options = dict(found.parameters or {})
        columns = tuple(ViewColumn(item.name, view_type(item.type), item.comment) for item in found.sd.cols or ())
        query = found.viewExpandedText or found.viewOriginalText or ""
        return KeptView(name, query, columns, options.pop("comment", None), options=options)

    def create_view(self, view: KeptView) -> bool:
        for name in split_name(view.name):
            _check_case(name, "view")
        try:
            self._metastore.create(_described(view))
        except NameExists:
            return False
        return True

    def replace_view(self, view: KeptView) -> None:
        self._metastore.alter(*split_name(view.name), _described(view))

    def rename_view(self, name: str, new_name: str) -> None:
        found = self._metastore.table(*split_name(name))
        found.dbName, found.tableName = split_name(new_name)
        _check_case(found.tableName, "view")
        self._metastore.alter(*split_name(name), found)

    def drop_view(self, name: str) -> None:
        with self._metastore.session() as client:
            client.drop_table(*split_name(name), deleteData=False)

    def has_table(self, name: str) -> bool:
        found = self._found(name)
        return found is not None and is_paimon(found)

    def _found(self, name: str) -> Any:
        try:
            return self._metastore.table(*split_name(name))
        except NameMissing:
            return None

    def _table(self, name: str) -> Any:
        found = self._found(name)
        if found is None:
            raise TableMissing("there is no table", table=name, metastore=str(self._metastore))
        if not is_paimon(found):
            kind = (found.parameters or {}).get("table_type", found.tableType)
            raise not_paimon(name, kind, metastore=str(self._metastore))
        return found

    def _location(self, name: str) -> str:
        return self._metastore.location(self._table(name))

    def open(self, name: str, branch: str | None) -> TableStore:
        storage, root = self._folders.open(self._location(name))
        return TableStore.open(storage, root, branch, self._environment, self._commits, name)

    def create_table(self, name: str, schema: TableSchema) -> bool:
        """Create the schema file, and then the table of the metastore, as Java does.

        If the process dies in between, creating the same table again completes it.
        """
        database, table = split_name(name)
        _check_case(database, "database")
        _check_case(table, "table")
        check_describable(schema)
        found = self._found(name)
        if found is not None:
            self._table(name)
            return False
        if not self.has_database(database):
            self.create_database(database, {})
        chosen = schema.typed[PATH]
        location = checked_path(chosen) if chosen else self._folders.usual(database, table)
        existing = self._folders.create_schema(location, schema)
        if chosen and existing is not None:
            check_same(existing, schema, name, location)
        # A process that died before it registered the table leaves exactly this schema; any other schema is a foreign
        # table.
        elif existing is not None and _content(existing) != _content(schema):
            raise ConfigError(
                "the folder of the table contains a table that the metastore does not have",
                table=name,
                path=location,
                hint="move it away, or open it by its path",
            )
        try:
            place = uri(location) if chosen else location
            self._metastore.create(new_table(database, table, place, existing or schema, external=bool(chosen)))
        except NameExists:
            return False
        return True

    def schema_at(self, path: str) -> TableSchema | None:
        return SchemaFiles(*self._folders.open(checked_path(path))).latest()

    def keeps_files(self, name: str) -> bool:
        return is_external(self._table(name))

    def drop_table(self, name: str) -> None:
        """Delete the table of the metastore, and then its folder unless it is an external table."""
        found = self._table(name)
        with self._metastore.session() as client:
            client.drop_table(*split_name(name), deleteData=False)
        if not is_external(found):
            storage, root = self._folders.open(self._metastore.location(found))
            delete_table_folder(storage, root)
            _forget(root)

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename the table, and move its folder unless the table is external or not in the folder of its database."""
        (database, table), (new_database_, new_table_) = split_name(name), split_name(new_name)
        _check_case(new_table_, "table")
        found = self._table(name)
        location = self._metastore.location(found)
        found.dbName, found.tableName = new_database_, new_table_
        self._metastore.alter(database, table, found)
        usual = self._folders.usual(database, table)
        storage, root = self._folders.open(location)
        moves = not is_external(found) and location.rstrip("/") == usual
        if not moves or not SchemaFiles(storage, root).ids():  # the metastore may have moved the folder itself
            return
        target = self._folders.usual(new_database_, new_table_)
        new_root, reached = self._folders.open(target)[1], set[str]()

        def relocate() -> None:
            # The metastore names the new place only once the folder is complete there.
            reached.add("moved")
            self._relocate(new_name, target)
            reached.add("described")

        def rest() -> str:
            if "moved" not in reached:
                return f"the table is complete as {new_name} in its old folder {location}, and can stay there"
            if "described" not in reached:
                return f"the files are in {target}: CALL sys.repair('{new_name}')  enters this place"
            return f"the table is complete as {new_name}: CALL sys.repair, and delete {location} if it is still there"

        with finished_by("the name has changed, and the folder was not moved", rest, table=new_name, path=target):
            storage.rename_tree(root, new_root, relocate)
            self._commits.partitions.replace(self.open(new_name, None))
        _forget(root)

    def _relocate(self, name: str, location: str) -> None:
        described = self._metastore.table(*split_name(name))
        described.sd.location = location
        self._metastore.alter(*split_name(name), described)

    def repair(self, name: str | None) -> list[RepairedTable]:
        """Enter the tables of the warehouse in the metastore, and correct those that it describes differently."""
        if name is None:
            databases = sorted({*self.databases(), *self._files.databases()})
            return [table for database in databases for table in self._repair_database(database)]
        if "." not in name:
            return self._repair_database(name)
        return [self._repair_table(name, self._places(split_name(name)[0]))]

    def _repair_database(self, database: str) -> list[RepairedTable]:
        if not self.has_database(database):
            if not self._files.has_database(database):
                raise ConfigError(
                    f"there is no database {database!r}",
                    warehouse=self._warehouse,
                    hint="the database needs a folder NAME.db in the warehouse, or an entry in the metastore",
                )
            self.create_database(database, {})
        place = self._metastore.database(database).locationUri.rstrip("/")
        storage, root = self._folders.open(place)
        found = sorted(entry.name for entry in storage.list(root) if entry.is_dir)
        places = self._places(database)
        with_schema = {
            table
            for table in found
            if SchemaFiles(storage, f"{root}/{table}").ids() and places.get(f"{place}/{table}", table) == table
        }
        # Tables may also be in other places than the folder of their database.
        return [
            self._attempt(f"{database}.{table}", places) for table in sorted({*with_schema, *self.tables(database)})
        ]

    def _attempt(self, name: str, places: Mapping[str, str]) -> RepairedTable:
        """Repair a table of several: one that cannot be repaired does not stop the others."""
        try:
            return self._repair_table(name, places)
        except ConfigError as error:
            return RepairedTable(name, "refused", error.message)

    def _repair_table(self, name: str, places: Mapping[str, str]) -> RepairedTable:
        database, table = split_name(name)
        _check_case(table, "table")
        found = self._found(name)
        usual = self._folders.usual(database, table)
        location = self._location(name) if found else usual
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
            self._relocate(name, usual)
            location = usual
        storage, root = self._folders.open(location)
        store = TableStore.open(storage, root, None, self._environment, self._commits, name)
        repaired = self._commits.register(store, location, exists=found is not None)
        if not moved:
            return repaired
        self._commits.partitions.replace(store)
        return RepairedTable(name, "updated")

    def _places(self, database: str) -> dict[str, str]:
        """Return the name of each table of a database by its location; a rename may have left it in its old folder."""
        found = [table for table in self._metastore.tables(database) if is_paimon(table)]
        return {table.sd.location.rstrip("/"): table.tableName for table in found if table.sd and table.sd.location}

    def _was_moved(self, location: str, usual: str) -> bool:
        """Return whether a rename has moved a folder to its usual place, and ended before the metastore named it."""
        return not SchemaFiles(*self._folders.open(location)).ids() and bool(
            SchemaFiles(*self._folders.open(usual)).ids()
        )


def _described(view: KeptView) -> Any:
    columns = [(column.name, read_type(column.type), column.comment) for column in view.columns]
    parameters = {**view.options, **({"comment": view.comment} if view.comment else {})}
    return new_view(*split_name(view.name), view.query, columns, parameters)


def _forget(root: str) -> None:
    from penstock.table.dynamic_buckets.local_caches import forget_table  # much code, and tasks drop no tables

    forget_table(root)


def _content(schema: TableSchema) -> tuple[object, ...]:
    return schema.fields, schema.primary_keys, schema.partition_keys, schema.options, schema.comment


def _check_case(name: str, kind: str) -> None:
    if name != name.lower():
        raise ConfigError(
            f"{name!r} cannot be the name of a {kind} in a Hive metastore: its names are lower case",
            hint=f"use {name.lower()!r}; a pipeline into a Hive metastore converts names",
        )
