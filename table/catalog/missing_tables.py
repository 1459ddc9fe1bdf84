"""The errors for databases and tables that do not exist, with the name that was probably meant."""

from __future__ import annotations

from penstock.errors import ConfigError, did_you_mean, nearest
from penstock.table.catalog.base import CatalogBackend, split_name
from penstock.table.meta.store import TableMissing


def check_database(backend: CatalogBackend, warehouse: str, name: str) -> None:
    """Refuse the name of a database that the catalog does not have."""
    if not backend.has_database(name):
        raise missing_database_error(backend.databases(), warehouse, name)


def missing_database_error(known: list[str], warehouse: str, name: str, hint: str | None = None) -> ConfigError:
    """Return the error for a database that is not among the known ones."""
    hint = hint or did_you_mean(name, known, "create it with CREATE DATABASE, or create_database in Python")
    return ConfigError(f"there is no database {name!r}", warehouse=warehouse, hint=hint)


def missing_table_error(backend: CatalogBackend, warehouse: str, name: str) -> TableMissing:
    """Return the error for a table `database.table` that the catalog does not have."""
    if backend.view(name) is not None:
        return view_instead(name)
    return TableMissing(
        f"there is no table {name!r}", warehouse=warehouse, hint=missing_table_hint(backend, warehouse, name)
    )


def view_instead(name: str) -> TableMissing:
    """Return the error for a view in the place of a table."""
    return TableMissing(
        f"{name} is a view, and not a table",
        table=name,
        hint="a query in SQL reads it by its name alone;  DESCRIBE EXTENDED  shows its query, and  DROP VIEW  drops it",
    )


def missing_table_hint(backend: CatalogBackend, warehouse: str, name: str, branch: str | None = None) -> str | None:
    """Return the hint for a table `database.table`, or one of its branches, that cannot be opened."""
    database, table = split_name(name)
    near = nearest(table, backend.possible_tables(database))
    if near and near != table:
        return f"did you mean {database}.{near}?"
    if backend.is_missing():
        return f"there is nothing at {warehouse}: is the warehouse's path right?"
    if branch is not None:
        return None
    databases = backend.databases()
    if database in databases:
        return f"database {database} has no similar table;  penstock tables  lists what is there"
    return did_you_mean(database, databases, f"there is no database {database}")
