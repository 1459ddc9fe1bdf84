"""The JDBC catalog: names of databases and tables in a relational database, which Java Paimon shares.

It uses the same tables, columns and values as Java's JdbcCatalog. A table's folder follows from its name, as in a file
system catalog; the property `location` of a database is written as Java does, and has no effect on tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.storage.environment import Environment
from penstock.table.catalog.base import split_name
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.catalog.jdbc_database import DuplicateRow, JdbcDatabase
from penstock.table.catalog.jdbc_lock import JdbcLocks, LockedCommits
from penstock.table.catalog.jdbc_names import JdbcNames
from penstock.table.meta.store import TableCommits, TableMissing, TableStore
from penstock.table.schema.table_schema import TableSchema

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
        self._names, self._locks = JdbcNames(database, key, locks), locks

    def is_missing(self) -> bool:
        return False  # the database with the names is there, and the first table creates the warehouse's folder

    def check(self) -> str:
        """Check the warehouse as a file system catalog does, and that the database has Paimon's tables."""
        warehouse = super().check()
        self._names.prepare()
        return f"{self._names} answers; {warehouse}"

    def databases(self) -> list[str]:
        return self._names.databases()

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
                catalog=str(self._names),
                hint="use it, or create it only if it does not exist (ignore_if_exists, IF NOT EXISTS)",
            )

    def _insert_database(self, database: str, properties: Mapping[str, str]) -> bool:
        location = self._warehouse.rstrip("/") + self._database(database).removeprefix(self._root)
        rows = {_EXISTS: "true", _LOCATION: location} | dict(properties)
        return self._names.insert_database(database, rows)

    def database_properties(self, database: str) -> dict[str, str]:
        found = self._names.properties(database)
        return {key: text for key, text in found.items() if key != _EXISTS}

    def alter_database(self, database: str, changes: Mapping[str, str | None]) -> None:
        # Before the others: each statement is committed by itself.
        if _EXISTS in changes:
            raise ConfigError(
                f"the property {_EXISTS!r} of a database cannot be changed",
                database=database,
                hint="leave it out: Paimon marks databases with it",
            )
        self._names.change_properties(database, changes)

    def drop_database(self, database: str) -> None:
        """Delete the tables of the database, and then its properties. Folders that are not tables of it remain."""
        for table in self.tables(database):
            self.drop_table(f"{database}.{table}")
        self._names.delete_database(database)

    def tables(self, database: str) -> list[str]:
        return self._names.tables(database)

    def possible_tables(self, database: str) -> list[str]:
        return self.tables(database)

    def has_table(self, name: str) -> bool:
        return self._names.has_table(name)

    def open(self, name: str, branch: str | None) -> TableStore:
        if not self.has_table(name):
            raise TableMissing("there is no table", table=name, catalog=str(self._names))
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
                self._names.insert_table(name)
            try:
                return super().create_table(name, schema)
            except ConfigError:
                self._names.delete_table(name)
                raise

    def drop_table(self, name: str) -> None:
        # The name first: a crash in between leaves a folder that no catalog names, never a name without a table.
        self._names.delete_table(name)
        super().drop_table(name)

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename the table and move its folder. Called again after a crash, it completes the rename.

        The name changes once the new folder is complete, so that in an object store, where every file is copied, one of
        the names works at each moment. Elsewhere a crash may leave the old name with its folder at the new place.
        """
        _check_case(split_name(new_name)[1], "table")
        with self._locked(name):
            if not self.has_table(name):
                raise TableMissing("there is no table", table=name, catalog=str(self._names))
            if not self._names.is_free(new_name, name):
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
        try:
            if not self._names.rename_table(name, new_name):
                raise TableMissing("there is no table", table=name, catalog=str(self._names))
        except DuplicateRow as error:
            raise _is_taken(new_name) from error

    def _locked(self, name: str) -> AbstractContextManager[None]:
        self._names.prepare()
        return self._locks.held(name, self._ambient) if self._locks else nullcontext()


def _check_case(name: str, kind: str) -> None:
    if name != name.lower():
        raise ConfigError(
            f"{name!r} cannot be the name of a {kind} in a JDBC catalog: its names are lower case",
            hint=f"use {name.lower()!r}; case-sensitive = false in a pipeline converts names",
        )


def _is_taken(name: str) -> ConfigError:
    return ConfigError(f"table {name!r} exists already", hint="choose another name, or drop that table first")
