"""The Hive catalog: names, places and columns of tables in a Hive metastore, which Java Paimon and Hive share.

The schema files in a table's folder decide; the metastore has the name, the place, and a copy of the columns.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.storage.catalog_options import split_options
from penstock.storage.environment import Environment
from penstock.storage.open import is_object_store, open_storage, probe
from penstock.table.catalog.base import CatalogBackend, split_name
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.catalog.hive_client import HiveMetastore, NameExists, NameMissing
from penstock.table.catalog.hive_commits import HiveCommits, HiveLocks, check_describable, shows_tags
from penstock.table.catalog.hive_objects import is_external, is_paimon, new_database, new_table
from penstock.table.catalog.hive_partitions import shows_partitions
from penstock.table.meta.paths import DATABASE_SUFFIX
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.options.kinds import parse_boolean, parse_duration
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:.*")


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
        """Use the metastore's names; `locks` are those of commits, if any."""
        self._warehouse, self._store_options = warehouse, dict(store_options)
        self._environment, self._metastore = environment, metastore
        self._commits = HiveCommits(metastore, locks)
        self._folders = FileCatalog(*open_storage(warehouse, store_options), environment, warehouse=warehouse)
        self._probed: set[str] = set()

    @property
    def longest_name(self) -> int:
        return self._folders.longest_name

    def exists(self) -> bool:
        # Every metastore has the database `default`.
        return self.databases() != ["default"] or bool(self.tables("default"))

    def check(self) -> str:
        """Check the warehouse as a file system catalog does, and that the metastore answers."""
        warehouse = self._folders.check()
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
        storage, root = open_storage(location, self._store_options)
        storage.mkdirs(root)
        with self._metastore.session() as client:
            client.create_database(new_database(database, _uri(location), given))

    def _database(self, database: str) -> Any:
        with self._metastore.session() as client:
            return client.get_database(database)

    def database_properties(self, database: str) -> dict[str, str]:
        found = self._database(database)
        comment = {"comment": found.description} if found.description else {}
        return {**(found.parameters or {}), **comment, "location": found.locationUri}

    def drop_database(self, database: str) -> None:
        """Delete the Paimon tables of the database, and then the database. Refused if it has other tables."""
        for table in self.tables(database):
            self.drop_table(f"{database}.{table}")
        with self._metastore.session() as client:
            # The metastore deletes no files, and refuses a database that still has tables of other kinds.
            client.drop_database(database, deleteData=False, cascade=False)

    def tables(self, database: str) -> list[str]:
        return sorted(one.tableName for one in self._metastore.tables(database) if is_paimon(one))

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
            raise TableMissing("the table is not a Paimon table", table=name, type=kind, metastore=str(self._metastore))
        return found

    def _place(self, location: str) -> tuple[Storage, str]:
        storage, root = open_storage(location, self._store_options)
        return storage, root.rstrip("/")

    def open(self, name: str, branch: str | None) -> TableStore:
        storage, root = self._place(self._table(name).sd.location)
        store = TableStore.open(storage, root, branch, self._environment, self._commits, name)
        if shows_tags(store.schema()):
            log.warning("event=tags_not_in_metastore table=%s", name)
        return store

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
        location = f"{self._database(database).locationUri.rstrip('/')}/{table}"
        storage, root = self._place(location)
        self._probe(storage, root)
        files = SchemaFiles(storage, root)
        first = files.latest()
        if first is None and not files.create(schema):
            first = files.latest()
        # A process that died before it registered the table leaves exactly this schema; any other is a table of
        # somebody else.
        if first is not None and _content(first) != _content(schema):
            raise ConfigError(
                "the folder of the table contains a table that the metastore does not have",
                table=name,
                path=location,
                hint="move it away, or open it by its path",
            )
        try:
            self._metastore.create(
                new_table(database, table, location, first or schema, shown=shows_partitions(schema))
            )
        except NameExists:
            return False
        return True

    def drop_table(self, name: str) -> None:
        """Delete the table of the metastore, and then its folder unless it is an external table."""
        found = self._table(name)
        with self._metastore.session() as client:
            client.drop_table(*split_name(name), deleteData=False)
        if not is_external(found):
            storage, root = self._place(found.sd.location)
            storage.delete_tree(root)
            _forget(root)

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename the table, and move its folder unless the table is external or not in the folder of its database."""
        (database, table), (new_database_, new_table_) = split_name(name), split_name(new_name)
        _check_case(new_table_, "table")
        found = self._table(name)
        location = found.sd.location
        found.dbName, found.tableName = new_database_, new_table_
        self._metastore.alter(database, table, found)
        usual = f"{self._database(database).locationUri.rstrip('/')}/{table}"
        storage, root = self._place(location)
        moves = not is_external(found) and location.rstrip("/") == usual
        if not moves or not SchemaFiles(storage, root).ids():  # the metastore may have moved the folder itself
            return
        target = f"{self._database(new_database_).locationUri.rstrip('/')}/{new_table_}"
        storage.rename_tree(root, self._place(target)[1])
        # The metastore names the new place only once the folder is there.
        renamed = self._metastore.table(new_database_, new_table_)
        renamed.sd.location = target
        self._metastore.alter(new_database_, new_table_, renamed)
        self._commits.partitions.replace(self.open(new_name, None))
        _forget(root)

    def _probe(self, storage: Storage, root: str) -> None:
        folder = root.rpartition("/")[0]
        if folder not in self._probed:
            probe(storage, folder)
            self._probed.add(folder)


def _forget(root: str) -> None:
    from penstock.table.dynamic_buckets.local_caches import forget_table  # much code, and tasks drop no tables

    forget_table(root)


def _content(schema: TableSchema) -> tuple[object, ...]:
    return schema.fields, schema.primary_keys, schema.partition_keys, schema.options, schema.comment


def _uri(location: str) -> str:
    return location if _SCHEME.fullmatch(location) else f"file:{Path(location).expanduser().absolute()}"


def _check_case(name: str, what: str) -> None:
    if name != name.lower():
        raise ConfigError(
            f"{name!r} cannot be the name of a {what} in a Hive metastore: its names are lower case",
            hint=f"use {name.lower()!r}; a pipeline into a Hive metastore converts names",
        )


_ACTING = {
    "uri": None,
    "case-sensitive": "false",
    "lock.enabled": None,
    "lock.type": "hive",
    "lock-acquire-timeout": "8 min",
    "lock-check-max-sleep": "8 s",
    "location-in-properties": "false",
    "sync-all-properties": "true",
}
_ONLY = {
    "case-sensitive": "false",
    "lock.type": "hive",
    "location-in-properties": "false",
    "sync-all-properties": "true",
}


def open_hive(warehouse: str, options: Mapping[str, str], environment: Environment) -> HiveCatalog:
    """Open the catalog at `uri`. As in Java, `lock.enabled` is the default on object stores."""
    given, store = split_options("hive", options, _ACTING.keys())
    if not given.get("uri"):
        hint = "for example thrift://host:9083; hive-site.xml is not read"
        raise ConfigError("a Hive catalog needs a uri", option="uri", hint=hint)
    settings = {name: default for name, default in _ACTING.items() if default} | given
    for name, only in _ONLY.items():
        if settings[name].strip().lower() != only:
            raise ConfigError(
                f"{name} = {settings[name]} is not supported by a Hive catalog", option=name, hint=f"use {only}"
            )
    metastore = HiveMetastore.of(settings["uri"])
    acquire, sleep = parse_duration(settings["lock-acquire-timeout"]), parse_duration(settings["lock-check-max-sleep"])
    # On an object store, Java's writers look for a snapshot and then write it: without the lock they could
    # overwrite ours.
    locked = parse_boolean(settings.get("lock.enabled", str(is_object_store(warehouse))))
    locks = HiveLocks(metastore, acquire, sleep) if locked else None
    return HiveCatalog(warehouse, store, environment, metastore, locks)
