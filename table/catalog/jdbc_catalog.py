"""The JDBC catalog: names of databases and tables in a relational database, which Java Paimon shares.

It uses the same tables, columns and values as Java's JdbcCatalog. A table's folder follows from its name, as in a file
system catalog; the property `location` of a database is written as Java does, and has no effect on tables.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.storage.environment import Environment
from penstock.table.catalog.base import split_name
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.catalog.jdbc_database import DatabaseConnection, DuplicateRow, JdbcDatabase
from penstock.table.catalog.jdbc_lock import JdbcLocks, LockedCommits
from penstock.table.meta.store import TableCommits, TableMissing, TableStore
from penstock.table.schema.table_schema import TableSchema

TABLES = "paimon_tables"
PROPERTIES = "paimon_database_properties"
_NAME = "catalog_key VARCHAR(255) NOT NULL,database_name VARCHAR(255) NOT NULL,"
_TABLE_COLUMNS = f"{_NAME}table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, database_name, table_name)"
_PROPERTY_COLUMNS = f"{_NAME}property_key VARCHAR(255),property_value VARCHAR(1000),"
_PROPERTY_COLUMNS += "PRIMARY KEY (catalog_key, database_name, property_key)"
_THIS_DATABASE = "catalog_key = ? AND database_name = ?"
_THIS_TABLE = f"{_THIS_DATABASE} AND table_name = ?"
_EXISTS, _LOCATION = "exists", "location"


class JdbcCatalog(FileCatalog):
    """A catalog whose names are in a database, and whose tables are at `<root>/<database>.db/<table>`.

    A table is registered before its first schema file is created: if the process dies in between, creating the table
    again completes it.
    """

    def __init__(
        self,
        storage: Storage,
        root: str,
        ambient: Environment | None = None,
        *,
        database: JdbcDatabase,
        key: str,
        locks: JdbcLocks | None,
        warehouse: str | None = None,
    ) -> None:
        """Use the names that `database` keeps for the catalog `key`. Commits hold `locks`, if there are any."""
        super().__init__(storage, root, ambient, warehouse=warehouse)
        self._database_of_names, self._key, self._locks = database, key, locks
        self._prepared, self._preparing = False, threading.Lock()

    def is_missing(self) -> bool:
        return False  # the database with the names is there, and the first table creates the warehouse's folder

    def check(self) -> str:
        """Check the warehouse as a file system catalog does, and that the database has Paimon's tables."""
        warehouse = super().check()
        with self._session():
            return f"{self._database_of_names} answers; {warehouse}"

    def databases(self) -> list[str]:
        # A database may be known by its tables alone.
        both = f"SELECT database_name FROM {TABLES} WHERE catalog_key = ?"
        both += f" UNION SELECT database_name FROM {PROPERTIES} WHERE catalog_key = ?"
        return sorted(name for (name,) in self._texts(both, self._key, self._key))

    def has_database(self, database: str) -> bool:
        return database in self.databases()

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        _check_case(database, "database")
        if _LOCATION in properties:
            hint = "leave it out: tables are in folders of the warehouse"
            raise ConfigError("a database of a JDBC catalog cannot choose its location", database=database, hint=hint)
        self._probe()
        if not self._insert_database(database, properties):
            raise ConfigError(
                f"database {database!r} exists already",
                catalog=str(self._database_of_names),
                hint="use it, or create it only if it does not exist (ignore_if_exists, IF NOT EXISTS)",
            )

    def _insert_database(self, database: str, properties: Mapping[str, str]) -> bool:
        location = self._warehouse.rstrip("/") + self._database(database).removeprefix(self._root)
        rows = {_EXISTS: "true", _LOCATION: location} | dict(properties)
        # One statement, because each is committed by itself: if two processes create the database, one of them inserts
        # all rows and the other inserts no row.
        places = ",".join(["(?,?,?,?)"] * len(rows))
        into = f"INSERT INTO {PROPERTIES} (catalog_key, database_name, property_key, property_value) VALUES {places}"
        values = (value for key, text in rows.items() for value in (self._key, database, key, text))
        with self._session() as session:
            try:
                return session.execute(into, *values) > 0
            except DuplicateRow:
                return False

    def database_properties(self, database: str) -> dict[str, str]:
        query = f"SELECT property_key, property_value FROM {PROPERTIES} WHERE {_THIS_DATABASE}"
        query += " AND property_value IS NOT NULL"  # the column allows NULL: such a property is not set
        return {key: text for key, text in self._texts(query, self._key, database) if key != _EXISTS}

    def alter_database(self, database: str, changes: Mapping[str, str | None]) -> None:
        # Before the others: each statement is committed by itself.
        if _EXISTS in changes:
            raise ConfigError(
                f"the property {_EXISTS!r} of a database cannot be changed",
                database=database,
                hint="leave it out: Paimon marks databases with it",
            )
        with self._session() as session:
            for key, text in changes.items():
                if text is None:
                    where = f"{_THIS_DATABASE} AND property_key = ?"
                    session.execute(f"DELETE FROM {PROPERTIES} WHERE {where}", self._key, database, key)
                else:
                    self._set_property(session, database, key, text)

    def _set_property(self, session: DatabaseConnection, database: str, key: str, text: str) -> None:
        names = "catalog_key, database_name, property_key"
        into = f"INSERT INTO {PROPERTIES} (property_value, {names}) VALUES (?,?,?,?)"
        place = (self._key, database, key)
        try:
            session.execute(into, text, *place)
        except DuplicateRow:
            update = f"UPDATE {PROPERTIES} SET property_value = ? WHERE {_THIS_DATABASE} AND property_key = ?"
            session.execute(update, text, *place)

    def drop_database(self, database: str) -> None:
        """Delete the tables of the database, and then its properties. Folders that are not tables of it remain."""
        for table in self.tables(database):
            self.drop_table(f"{database}.{table}")
        with self._session() as session:
            session.execute(f"DELETE FROM {PROPERTIES} WHERE {_THIS_DATABASE}", self._key, database)

    def tables(self, database: str) -> list[str]:
        query = f"SELECT table_name FROM {TABLES} WHERE {_THIS_DATABASE}"
        return sorted(name for (name,) in self._texts(query, self._key, database))

    def possible_tables(self, database: str) -> list[str]:
        return self.tables(database)

    def has_table(self, name: str) -> bool:
        with self._session() as session:
            return bool(session.rows(f"SELECT 1 FROM {TABLES} WHERE {_THIS_TABLE}", self._key, *split_name(name)))

    def open(self, name: str, branch: str | None) -> TableStore:
        if not self.has_table(name):
            raise TableMissing("there is no table", table=name, catalog=str(self._database_of_names))
        commits: TableCommits | None = LockedCommits(self._locks) if self._locks else None
        try:
            return TableStore.open(self._storage, self._table(name), branch, self._ambient, commits, name)
        except TableMissing as missing:
            if super().has_table(name):
                raise  # the branch is missing
            raise TableMissing(
                "the catalog has the name of the table, and its folder has no table",
                table=name,
                path=self._table(name),
                hint="after a rename that was interrupted: rename it again to the same name; after a creation that was"
                " interrupted: create it again; otherwise drop it",
            ) from missing

    def create_table(self, name: str, schema: TableSchema) -> bool:
        database, table = split_name(name)
        _check_case(database, "database")
        _check_case(table, "table")
        with self._locked(name):
            has_schema = super().has_table(name)
            registered = self.has_table(name)
            if has_schema and registered:
                return False
            if has_schema:
                raise ConfigError(
                    "the folder of the table contains a table that this catalog does not have",
                    table=name,
                    path=self._table(name),
                    hint="move it away, or open it by its path",
                )
            # Does nothing if the database exists.
            self._insert_database(database, {})
            if not registered:
                self._register(name)
            try:
                return super().create_table(name, schema)
            except ConfigError:
                self._unregister(name)
                raise

    def drop_table(self, name: str) -> None:
        # The name first: a crash in between leaves a folder that no catalog names, never a name without a table.
        self._unregister(name)
        super().drop_table(name)

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename the table and move its folder. Called again after a crash, it completes the rename.

        The name changes once the new folder is complete, so that in an object store, where every file is copied, one of
        the names works at each moment. Elsewhere a crash may leave the old name with its folder at the new place.
        """
        _check_case(split_name(new_name)[1], "table")
        with self._locked(name):
            if not self.has_table(name):
                raise TableMissing("there is no table", table=name, catalog=str(self._database_of_names))
            if self.has_table(new_name):
                raise _is_taken(new_name)
            if not super().has_table(name) and super().has_table(new_name):
                self._update(name, new_name)  # an earlier call has moved the folder
            else:
                self.open(name, None)  # refuses a name without a folder
                self._move(name, new_name)
        self._forget(name)

    def _move(self, name: str, new_name: str) -> None:
        source, target = self._table(name), self._table(new_name)
        try:
            self._storage.rename_tree(source, target, partial(self._update, name, new_name))
        except FileExistsError as error:
            raise ConfigError(
                "the folder of the new name contains files: of an interrupted rename, or of a table that this catalog"
                " does not have",
                table=name,
                path=target,
                hint="the table is complete under its old name: move or delete these files, and rename it again",
            ) from error

    def _update(self, name: str, new_name: str) -> None:
        update = f"UPDATE {TABLES} SET database_name = ?, table_name = ? WHERE {_THIS_TABLE}"
        with self._session() as session:
            try:
                if not session.execute(update, *split_name(new_name), self._key, *split_name(name)):
                    raise TableMissing("there is no table", table=name, catalog=str(self._database_of_names))
            except DuplicateRow as error:
                raise _is_taken(new_name) from error

    def _register(self, name: str) -> None:
        into = f"INSERT INTO {TABLES} (catalog_key, database_name, table_name) VALUES (?,?,?)"
        with self._session() as session:
            try:
                session.execute(into, self._key, *split_name(name))
            except DuplicateRow:
                return  # another process creates the table too; the schema file decides which one did

    def _unregister(self, name: str) -> None:
        with self._session() as session:
            session.execute(f"DELETE FROM {TABLES} WHERE {_THIS_TABLE}", self._key, *split_name(name))

    def _locked(self, name: str) -> AbstractContextManager[None]:
        self._prepare()
        return self._locks.held(name, self._ambient) if self._locks else nullcontext()

    def _texts(self, query: str, *values: object) -> list[tuple[str, ...]]:
        self._prepare()
        return self._database_of_names.texts(query, *values)

    def _session(self) -> AbstractContextManager[DatabaseConnection]:
        self._prepare()
        return self._database_of_names.session()

    def _prepare(self) -> None:
        """Create Paimon's tables in the database, once, unless they exist."""
        with self._preparing:
            if self._prepared:
                return
            with self._database_of_names.session() as session:
                session.create_table(TABLES, _TABLE_COLUMNS)
                session.create_table(PROPERTIES, _PROPERTY_COLUMNS)
                if self._locks:
                    self._locks.create_table(session)
            self._prepared = True


def _check_case(name: str, kind: str) -> None:
    if name != name.lower():
        raise ConfigError(
            f"{name!r} cannot be the name of a {kind} in a JDBC catalog: its names are lower case",
            hint=f"use {name.lower()!r}; case-sensitive = false in a pipeline converts names",
        )


def _is_taken(name: str) -> ConfigError:
    return ConfigError(f"table {name!r} exists already", hint="choose another name, or drop that table first")
