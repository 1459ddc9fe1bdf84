"""The state that the statements of a script share: the catalog, the current database, session options and DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.catalog.base import parse_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.tables_by_path import TablesByPath
from penstock.table.handle import Table
from penstock.table.sql.queries.session import Session

CREATE_CATALOG = "CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '...'); USE CATALOG c"


@dataclass(slots=True)
class OpenCatalog:
    """A catalog that a script uses, with its current database and the DuckDB session that reads its tables."""

    name: str
    catalog: Catalog
    session: Session
    database: str | None
    by_path: TablesByPath

    def use(self, database: str) -> None:
        """Make a database the current one."""
        if not self.catalog.backend.has_database(database):
            raise ConfigError(
                f"there is no database {database!r}",
                databases=", ".join(self.catalog.databases()),
                hint="create it with CREATE DATABASE, or name one of these",
            )
        self.database = database
        self.session.use(database)


class SqlContext:
    """The state of a script between its statements."""

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self.read_options: dict[str, str] = {}
        self.opened: dict[str, OpenCatalog] = {}
        self._current: OpenCatalog | None = None

    def open(self, name: str, catalog: Catalog, database: str | None) -> None:
        """Make a catalog known by a name."""
        own, by_path = catalog.with_tables_by_path()
        session = Session(own, database, name, self.read_options)
        self.opened[name] = OpenCatalog(name, own, session, database, by_path)

    def use_catalog(self, name: str) -> None:
        """Make an open catalog the current one."""
        self._current = self.known(name)

    def drop_catalog(self, name: str) -> None:
        """Forget a catalog; its tables stay."""
        known = self.known(name)
        if known is self._current:
            raise ConfigError(f"the catalog {name!r} is in use", hint="USE CATALOG with the name of another one first")
        known.session.close()
        del self.opened[name]

    def known(self, name: str) -> OpenCatalog:
        """Return the open catalog of a name."""
        if name not in self.opened:
            known = ", ".join(self.opened) or "no catalog is open"
            raise ConfigError(f"there is no catalog {name!r}", catalogs=known, hint=CREATE_CATALOG)
        return self.opened[name]

    def close(self) -> None:
        """Close the sessions of all catalogs."""
        for catalog in self.opened.values():
            catalog.session.close()

    @property
    def has_catalog(self) -> bool:
        """Return whether a catalog is in use."""
        return self._current is not None

    @property
    def current(self) -> OpenCatalog:
        """Return the catalog in use."""
        if self._current is None:
            raise ConfigError("no catalog is in use", hint=f"name a warehouse, or {CREATE_CATALOG}")
        return self._current

    @property
    def catalog(self) -> Catalog:
        """Return the current catalog."""
        return self.current.catalog

    @property
    def session(self) -> Session:
        """Return the DuckDB session of the current catalog."""
        return self.current.session

    @property
    def database(self) -> str | None:
        """Return the current database."""
        return self.current.database

    def full_name(self, names: Sequence[str]) -> str:
        """Return `database.table` for a name in a statement."""
        if len(names) == 3 and names[0] == self.current.name:
            names = names[1:]
        if len(names) > 2:
            hint = f"USE CATALOG {names[0]} first: a statement works on one catalog" if len(names) == 3 else None
            raise ConfigError(f"{'.'.join(names)!r} is not a table of the current catalog", hint=hint)
        if len(names) == 2:
            return ".".join(names)
        if self.database is None:
            hint = "write database.table, or USE a database first"
            raise ConfigError(f"{names[0]!r} is not a table's full name", hint=hint)
        return f"{self.database}.{names[0]}"

    def table(self, names: Sequence[str]) -> Table:
        """Open the table that a statement changes."""
        name = self.full_name(names)
        if parse_name(name)[2] is not None:
            raise ConfigError(f"{name} is a system table", hint="system tables can be read, but not changed")
        return self.catalog.table(name)


def done() -> pa.Table:
    """Return the result of a statement that returns no rows."""
    return pa.table({"result": ["OK"]})


def one_column(name: str, values: Sequence[str]) -> pa.Table:
    """Return texts as a table of one column."""
    return pa.table({name: pa.array(values, pa.string())})
