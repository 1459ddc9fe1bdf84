"""The rows of a JDBC catalog: its names, in tables of a database that Java's JdbcCatalog shares.

A database compares texts by a collation. MySQL's usual ones take `orders` and `Orders` for one name, and `cafe` and
`café`. Folders of tables differ by every byte, so names are compared again here: a statement for one name must not
change the row of another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager

from penstock.errors import ConfigError
from penstock.table.catalog.base import split_name
from penstock.table.catalog.jdbc_database import DatabaseConnection, DuplicateRow, JdbcDatabase
from penstock.table.catalog.jdbc_lock import JdbcLocks

TABLES = "paimon_tables"
PROPERTIES = "paimon_database_properties"
_NAME = "catalog_key VARCHAR(255) NOT NULL,database_name VARCHAR(255) NOT NULL,"
_TABLE_COLUMNS = f"{_NAME}table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, database_name, table_name)"
_PROPERTY_COLUMNS = f"{_NAME}property_key VARCHAR(255),property_value VARCHAR(1000),"
_PROPERTY_COLUMNS += "PRIMARY KEY (catalog_key, database_name, property_key)"
_THIS_DATABASE = "catalog_key = ? AND database_name = ?"
_THIS_TABLE = f"{_THIS_DATABASE} AND table_name = ?"


class JdbcNames:
    """The names of the catalog `key`. Paimon's tables are created with the first statement, unless they exist."""

    def __init__(self, database: JdbcDatabase, key: str, locks: JdbcLocks | None) -> None:
        """Use the tables of a database; `locks`, if there are any, are in a further table."""
        self._database, self._key, self._locks = database, key, locks
        self._prepared, self._preparing = False, threading.Lock()

    def __str__(self) -> str:
        return str(self._database)

    def prepare(self) -> None:
        """Create Paimon's tables in the database, once, unless they exist."""
        with self._preparing:
            if self._prepared:
                return
            with self._database.session() as session:
                session.create_table(TABLES, _TABLE_COLUMNS)
                session.create_table(PROPERTIES, _PROPERTY_COLUMNS)
                if self._locks:
                    self._locks.create_table(session)
            self._prepared = True

    def databases(self) -> list[str]:
        """Return the databases in order; one may be known by its tables alone."""
        # Not by UNION, which takes names that are alike for one.
        both = " UNION ALL ".join(
            f"SELECT catalog_key, database_name FROM {table} WHERE catalog_key = ?" for table in (TABLES, PROPERTIES)
        )
        return sorted({name for key, name in self._texts(both, self._key, self._key) if key == self._key})

    def tables(self, database: str) -> list[str]:
        """Return the tables of a database in order."""
        found = self._texts(
            f"SELECT {_columns('table_name')} FROM {TABLES} WHERE {_THIS_DATABASE}", *self._of(database)
        )
        return sorted(table for *place, table in found if place == self._of(database))

    def has_table(self, name: str) -> bool:
        """Return whether the catalog has the name of a table."""
        return self._entered(name) == self._of(*split_name(name))

    def _entered(self, name: str) -> list[str] | None:
        """Return the row that the database finds for a table: its own, or one whose name is alike; None without one."""
        query = f"SELECT {_columns('table_name')} FROM {TABLES} WHERE {_THIS_TABLE}"
        # Names that are alike have one primary key, so that there is at most one row.
        return next(map(list, self._texts(query, *self._of(*split_name(name)))), None)

    def properties(self, database: str) -> dict[str, str]:
        """Return the properties that are set for a database."""
        # The column allows NULL: such a property is not set.
        found = self._properties(database, "property_key, property_value", "property_value IS NOT NULL")
        return {key: text for *place, key, text in found if place == self._of(database)}

    def _properties(self, database: str, columns: str, condition: str) -> list[tuple[str, ...]]:
        query = f"SELECT {_columns(columns)} FROM {PROPERTIES} WHERE {_THIS_DATABASE} AND {condition}"
        return self._texts(query, *self._of(database))

    def insert_database(self, database: str, properties: Mapping[str, str]) -> bool:
        """Enter a database with at least one property. Return False if the database exists."""
        # One statement, because each is committed by itself: if two processes create the database, one of them inserts
        # all rows and the other inserts no row.
        places = ",".join(["(?,?,?,?)"] * len(properties))
        into = f"INSERT INTO {PROPERTIES} ({_columns('property_key, property_value')}) VALUES {places}"
        values = (value for pair in properties.items() for value in (*self._of(database), *pair))
        with self._session() as session:
            try:
                return session.execute(into, *values) > 0
            except DuplicateRow:
                pass
        found = self._properties(database, "property_key", "1 = 1")
        self._refuse_alike(database, [list(place) for *place, _ in found])
        return False

    def change_properties(self, database: str, changes: Mapping[str, str | None]) -> None:
        """Set properties of a database; None removes one. Each is committed by itself."""
        with self._session() as session:
            for key, text in changes.items():
                if text is None:
                    where = f"{_THIS_DATABASE} AND property_key = ?"
                    session.execute(f"DELETE FROM {PROPERTIES} WHERE {where}", *self._of(database), key)
                else:
                    self._set_property(session, database, key, text)

    def _set_property(self, session: DatabaseConnection, database: str, key: str, text: str) -> None:
        into = f"INSERT INTO {PROPERTIES} (property_value, {_columns('property_key')}) VALUES (?,?,?,?)"
        place = (*self._of(database), key)
        try:
            session.execute(into, text, *place)
        except DuplicateRow:
            update = f"UPDATE {PROPERTIES} SET property_value = ? WHERE {_THIS_DATABASE} AND property_key = ?"
            session.execute(update, text, *place)

    def delete_database(self, database: str) -> None:
        """Delete the properties of a database, which has no tables any more."""
        if self._of(database) not in [list(place) for *place, _ in self._properties(database, "property_key", "1 = 1")]:
            return
        with self._session() as session:
            session.execute(f"DELETE FROM {PROPERTIES} WHERE {_THIS_DATABASE}", *self._of(database))

    def insert_table(self, name: str) -> None:
        """Enter a table. Another process may create it too: the schema file decides which one did."""
        into = f"INSERT INTO {TABLES} ({_columns('table_name')}) VALUES (?,?,?)"
        with self._session() as session:
            try:
                session.execute(into, *self._of(*split_name(name)))
                return
            except DuplicateRow:
                pass
        self._refuse_alike(name, filter(None, [self._entered(name)]))

    def rename_table(self, name: str, new_name: str) -> bool:
        """Give an existing table another name; DuplicateRow if the new name exists.

        Return False if the table was renamed or dropped meanwhile.
        """
        update = f"UPDATE {TABLES} SET database_name = ?, table_name = ? WHERE {_THIS_TABLE}"
        with self._session() as session:
            return session.execute(update, *split_name(new_name), *self._of(*split_name(name))) > 0

    def is_free(self, new_name: str, name: str) -> bool:
        """Return whether a table can get a new name; ConfigError if another one has a name that is alike."""
        found = self._entered(new_name)
        if found is None or found == self._of(*split_name(name)):
            return True
        self._refuse_alike(new_name, [found])
        return False

    def delete_table(self, name: str) -> None:
        """Delete the name of a table, if the catalog has it."""
        if self.has_table(name):
            with self._session() as session:
                session.execute(f"DELETE FROM {TABLES} WHERE {_THIS_TABLE}", *self._of(*split_name(name)))

    def _of(self, *names: str) -> list[str]:
        return [self._key, *names]

    def _refuse_alike(self, name: str, found: Iterable[list[str]]) -> None:
        """Raise ConfigError if the rows that were found for a name have other names."""
        for key, *others in found:
            ours, theirs = (name, ".".join(others)) if key == self._key else (self._key, key)
            if ours != theirs:
                raise ConfigError(
                    f"{ours!r} and {theirs!r} are one name for the database of the catalog",
                    catalog=str(self),
                    catalog_key=key,
                    hint="choose another name, or change the columns of Paimon's tables in the database to a binary"
                    " collation, such as utf8mb4_bin in MySQL",
                )

    def _texts(self, query: str, *values: object) -> list[tuple[str, ...]]:
        self.prepare()
        return self._database.texts(query, *values)

    def _session(self) -> AbstractContextManager[DatabaseConnection]:
        self.prepare()
        return self._database.session()


def _columns(further: str) -> str:
    return f"catalog_key, database_name, {further}"
