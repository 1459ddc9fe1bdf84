"""The hint for a table that does not exist: the name that was probably meant, or where to look."""

from __future__ import annotations

from penstock.errors import did_you_mean, nearest
from penstock.table.catalog.base import CatalogBackend, split_name


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
