"""The system tables of a catalog, in the database `sys`: its tables, partitions and options."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.references import masked
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.rest_commits import statistics
from penstock.table.handle import Table
from penstock.table.meta.store import TableMissing
from penstock.table.read.fallback import readable_entries

log = logging.getLogger(__name__)

SYSTEM_DATABASE = "sys"
CATALOG_OPTIONS, ALL_TABLE_OPTIONS, TABLES, PARTITIONS = "catalog_options", "all_table_options", "tables", "partitions"
# Tables of other kinds, such as format-table, have no snapshots.
_READABLE = ("table", "materialized-table")
_OPTION = (("key", pa.string()), ("value", pa.string()))
_PLACE = (("database_name", pa.string()), ("table_name", pa.string()))
_FILES = (
    ("record_count", pa.int64()),
    ("file_size_in_bytes", pa.int64()),
    ("file_count", pa.int64()),
    ("last_file_creation_time", pa.int64()),
)
_COLUMNS: Mapping[str, tuple[tuple[str, pa.DataType], ...]] = {
    CATALOG_OPTIONS: _OPTION,
    ALL_TABLE_OPTIONS: (*_PLACE, *_OPTION),
    TABLES: (
        *_PLACE,
        ("table_type", pa.string()),
        ("partitioned", pa.bool_()),
        ("primary_key", pa.bool_()),
        ("owner", pa.string()),
        ("created_at", pa.int64()),
        ("created_by", pa.string()),
        ("updated_at", pa.int64()),
        ("updated_by", pa.string()),
        *_FILES,
    ),
    PARTITIONS: (*_PLACE, ("partition_name", pa.string()), *_FILES, ("done", pa.bool_())),
}
_NO_NUMBERS = (None,) * len(_FILES)


def global_names() -> list[str]:
    """Return the names of these tables, without the database."""
    return sorted(_TABLES)


def is_global(place: tuple[str, str]) -> bool:
    """Return whether `(database, table)` is the name of such a table, unless the catalog has a table of this name."""
    return place[0] == SYSTEM_DATABASE and place[1] in _TABLES


def global_table(catalog: Catalog, place: tuple[str, str]) -> pa.Table:
    """Return the rows of such a table."""
    schema, rows = global_schema(place[1]), list(_TABLES[place[1]](catalog))
    arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def global_schema(name: str) -> pa.Schema:
    """Return the columns of such a table."""
    return pa.schema(_COLUMNS[name])


def _catalog_options(catalog: Catalog) -> Iterable[Sequence[object]]:
    """Return the options of the catalog, without secrets."""
    options = {"warehouse": catalog.warehouse, **catalog.options}
    return ((key, masked(key, value)) for key, value in sorted(options.items()))


def _all_table_options(catalog: Catalog) -> Iterable[Sequence[object]]:
    """Return the options of all tables."""
    return _of_tables(
        catalog, lambda _, place, table: [(*place, key, value) for key, value in sorted(table.options.items())]
    )


class _Unreadable:
    """The tables that cannot be described. They are logged, and do not hide the others; if all are, it is an error."""

    def __init__(self) -> None:
        self._first: PenstockError | OSError | None = None
        self._any_read = False

    @contextmanager
    def beside(self, place: tuple[str, str]) -> Iterator[None]:
        """Read a table. One that was dropped since it was listed is passed over."""
        try:
            yield
            self._any_read = True
        except TableMissing:
            return
        except (PenstockError, OSError) as error:
            self._first = self._first or error
            reason = " ".join(str(error).partition("\n  to repair:")[0].split())
            log.warning("event=table_not_described table=%s.%s reason=%s", *place, reason)

    def end(self) -> None:
        """Raise the first error if no table could be read: the reason is not in a table."""
        if self._first is not None and not self._any_read:
            raise self._first


def _of_tables(
    catalog: Catalog, rows_of: Callable[[Catalog, tuple[str, str], Table], Iterable[Sequence[object]]]
) -> list[Sequence[object]]:
    """Return the rows of all tables that can be read, and log the others."""
    rows, unreadable = list[Sequence[object]](), _Unreadable()
    for database in catalog.databases():
        for name in catalog.tables(database):
            place = (database, name)
            with unreadable.beside(place):
                rows.extend(rows_of(catalog, place, catalog.table(f"{database}.{name}")))
    unreadable.end()
    return rows


def _tables(catalog: Catalog) -> Iterable[Sequence[object]]:
    """Return all tables."""
    return _of_tables(catalog, _table)


def _table(catalog: Catalog, place: tuple[str, str], table: Table) -> Iterable[Sequence[object]]:
    """Return the row of a table.

    Times and users are null in catalogs that keep none, as in Java; numbers are null in all.
    """
    kept = catalog.backend.audit(".".join(place))
    owner = kept.get("owner") or table.options.get("owner")
    audited = (kept.get(key) for key in ("createdAt", "createdBy", "updatedAt", "updatedBy"))
    yield *place, _kind(table), bool(table.partition_keys), bool(table.primary_keys), owner, *audited, *_NO_NUMBERS


def _kind(table: Table) -> str:
    return table.options.get("type", _READABLE[0])


def _partitions(catalog: Catalog) -> Iterable[Sequence[object]]:
    """Return the partitions of all tables that can be read, with the sums of their files."""
    return _of_tables(catalog, _partitions_of)


def _partitions_of(_: Catalog, place: tuple[str, str], table: Table) -> Iterable[Sequence[object]]:
    if not table.partition_keys or _kind(table) not in _READABLE:
        return
    layout, entries = Layout.of(table.definition), readable_entries(table.store, table.latest_snapshot)
    for found in statistics(entries, layout, table.store.ambient):
        # Not escaped, as in Java.
        name = "/".join(f"{column}={text}" for column, text in found["spec"].items())
        numbers = (found[key] for key in ("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime"))
        yield *place, name, *numbers, False


_TABLES: Mapping[str, Callable[[Catalog], Iterable[Sequence[object]]]] = {
    CATALOG_OPTIONS: _catalog_options,
    ALL_TABLE_OPTIONS: _all_table_options,
    TABLES: _tables,
    PARTITIONS: _partitions,
}
