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
from penstock.table.catalog.base import CatalogBackend, RepairedTable, split_name
from penstock.table.catalog.external_tables import check_same, checked_path
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.catalog.hive_commits import HiveCommits, HiveLocks, check_describable
from penstock.table.catalog.hive_entries import HiveEntries, check_case
from penstock.table.catalog.hive_folders import HiveFolders, path_of, uri
from penstock.table.catalog.hive_repair import HiveRepair
from penstock.table.catalog.kept_views import KeptView, ViewColumn
from penstock.table.catalog.unfinished import finished_by
from penstock.table.meta.paths import DATABASE_SUFFIX
from penstock.table.meta.store import TableStore
from penstock.table.metastore.hive_client import HiveMetastore, NameExists
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
        self._warehouse, self._metastore = warehouse, metastore
        self._files = FileCatalog(*open_storage(warehouse, store_options), environment, warehouse=warehouse)
        folders = HiveFolders(metastore, dict(store_options))
        self._entries = HiveEntries(metastore, folders, environment, HiveCommits(metastore, locks))

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
        check_case(database, "database")
        given = dict(properties)
        location = given.pop("location", None) or f"{self._warehouse.rstrip('/')}/{database}{DATABASE_SUFFIX}"
        storage, root = self._entries.folders.open(location)
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
        found = self._entries.find(name)
        if found is None or not is_view(found):
            return None
        options = dict(found.parameters or {})
        columns = tuple(ViewColumn(item.name, view_type(item.type), item.comment) for item in found.sd.cols or ())
        query = found.viewExpandedText or found.viewOriginalText or ""
        return KeptView(name, query, columns, options.pop("comment", None), options=options)

    def create_view(self, view: KeptView) -> bool:
        for name in split_name(view.name):
            check_case(name, "view")
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
        check_case(found.tableName, "view")
        self._metastore.alter(*split_name(name), found)

    def drop_view(self, name: str) -> None:
        with self._metastore.session() as client:
            client.drop_table(*split_name(name), deleteData=False)

    def has_table(self, name: str) -> bool:
        found = self._entries.find(name)
        return found is not None and is_paimon(found)

    def open(self, name: str, branch: str | None) -> TableStore:
        return self._entries.store(name, self._entries.location(name), branch)

    def create_table(self, name: str, schema: TableSchema) -> bool:
        """Create the schema file, and then the table of the metastore, as Java does.

        If the process dies in between, creating the same table again completes it.
        """
        database, table = split_name(name)
        check_case(database, "database")
        check_case(table, "table")
        check_describable(schema)
        found = self._entries.find(name)
        if found is not None:
            self._entries.table(name)
            return False
        if not self.has_database(database):
            self.create_database(database, {})
        chosen = schema.typed[PATH]
        location = checked_path(chosen) if chosen else self._entries.folders.usual(database, table)
        existing = self._entries.folders.create_schema(location, schema)
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
        return SchemaFiles(*self._entries.folders.open(checked_path(path))).latest()

    def keeps_files(self, name: str) -> bool:
        return is_external(self._entries.table(name))

    def drop_table(self, name: str) -> None:
        """Delete the table of the metastore, and then its folder unless it is an external table."""
        found = self._entries.table(name)
        with self._metastore.session() as client:
            client.drop_table(*split_name(name), deleteData=False)
        if not is_external(found):
            storage, root = self._entries.folders.open(self._metastore.location(found))
            delete_table_folder(storage, root)
            _forget(root)

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename the table, and move its folder unless the table is external or not in the folder of its database."""
        (database, table), (new_database_, new_table_) = split_name(name), split_name(new_name)
        check_case(new_table_, "table")
        found = self._entries.table(name)
        location = self._metastore.location(found)
        found.dbName, found.tableName = new_database_, new_table_
        self._metastore.alter(database, table, found)
        usual = self._entries.folders.usual(database, table)
        storage, root = self._entries.folders.open(location)
        moves = not is_external(found) and location.rstrip("/") == usual
        if not moves or not SchemaFiles(storage, root).ids():  # the metastore may have moved the folder itself
            return
        target = self._entries.folders.usual(new_database_, new_table_)
        new_root, reached = self._entries.folders.open(target)[1], set[str]()

        def relocate() -> None:
            # The metastore names the new place only once the folder is complete there.
            reached.add("moved")
            self._entries.relocate(new_name, target)
            reached.add("described")

        def rest() -> str:
            if "moved" not in reached:
                return f"the table is complete as {new_name} in its old folder {location}, and can stay there"
            if "described" not in reached:
                return f"the files are in {target}: CALL sys.repair('{new_name}')  enters this place"
            return f"the table is complete as {new_name}: CALL sys.repair, and delete {location} if it is still there"

        with finished_by("the name has changed, and the folder was not moved", rest, table=new_name, path=target):
            storage.rename_tree(root, new_root, relocate)
            self._entries.commits.partitions.replace(self.open(new_name, None))
        _forget(root)

    def repair(self, name: str | None) -> list[RepairedTable]:
        """Enter the tables of the warehouse in the metastore, and correct those that it describes differently."""
        return HiveRepair(self, self._files, self._entries, self._warehouse).repair(name)


def _described(view: KeptView) -> Any:
    columns = [(column.name, read_type(column.type), column.comment) for column in view.columns]
    parameters = {**view.options, **({"comment": view.comment} if view.comment else {})}
    return new_view(*split_name(view.name), view.query, columns, parameters)


def _forget(root: str) -> None:
    from penstock.table.dynamic_buckets.local_caches import forget_table  # much code, and tasks drop no tables

    forget_table(root)


def _content(schema: TableSchema) -> tuple[object, ...]:
    return schema.fields, schema.primary_keys, schema.partition_keys, schema.options, schema.comment
