"""The system tables of a catalog, in the database `sys`: `sys.catalog_options` and `sys.all_table_options`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from penstock.references import masked
from penstock.table.catalog.catalog import Catalog

SYSTEM_DATABASE = "sys"
CATALOG_OPTIONS, ALL_TABLE_OPTIONS = "catalog_options", "all_table_options"
_COLUMNS = {
    CATALOG_OPTIONS: ("key", "value"),
    ALL_TABLE_OPTIONS: ("database_name", "table_name", "key", "value"),
}


def global_names() -> list[str]:
    """Return the names of these tables, without the database."""
    return sorted(_TABLES)


def is_global(place: tuple[str, str]) -> bool:
    """Return whether `(database, table)` is the name of such a table, unless the catalog has a table of this name."""
    return place[0] == SYSTEM_DATABASE and place[1] in _TABLES


def global_table(catalog: Catalog, place: tuple[str, str]) -> pa.Table:
    """Return the rows of such a table."""
    return _TABLES[place[1]](catalog)


def global_schema(name: str) -> pa.Schema:
    """Return the columns of such a table."""
    return pa.schema([(column, pa.string()) for column in _COLUMNS[name]])


def _catalog_options(catalog: Catalog) -> pa.Table:
    """Return the options of the catalog, without secrets."""
    options = {"warehouse": catalog.warehouse, **catalog.options}
    return _texts(CATALOG_OPTIONS, ((key, masked(key, value)) for key, value in sorted(options.items())))


def _all_table_options(catalog: Catalog) -> pa.Table:
    """Return the options of all tables."""
    return _texts(
        ALL_TABLE_OPTIONS,
        (
            (database, name, key, value)
            for database in catalog.databases()
            for name in catalog.tables(database)
            for key, value in sorted(catalog.table(f"{database}.{name}").options.items())
        ),
    )


def _texts(table: str, rows: Iterable[tuple[str, ...]]) -> pa.Table:
    found, names = list(rows), _COLUMNS[table]
    return pa.table({name: pa.array([row[at] for row in found], pa.string()) for at, name in enumerate(names)})


_TABLES: Mapping[str, Callable[[Catalog], pa.Table]] = {
    CATALOG_OPTIONS: _catalog_options,
    ALL_TABLE_OPTIONS: _all_table_options,
}
