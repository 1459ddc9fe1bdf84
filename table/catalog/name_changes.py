"""Dropping and renaming tables: the names in the catalog, the files, and the entry of a catalog of Iceberg."""

from __future__ import annotations

from penstock.errors import ConfigError, TableCorrupt
from penstock.table.catalog.base import CatalogBackend, parse_name, split_name
from penstock.table.catalog.missing_tables import check_database, missing_table_error, view_instead
from penstock.table.catalog.unfinished import finished_by
from penstock.table.iceberg.catalog_entry import Entry, entry_of, remove_entry
from penstock.table.iceberg.publication import publish_if_enabled
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.usable import check_name


def drop_table(backend: CatalogBackend, warehouse: str, name: str, *, ignore_if_missing: bool) -> None:
    """Delete a table with all its files. ChangeUnfinished, which says how to delete the rest, if the store fails."""
    if not backend.has_table(name):
        if ignore_if_missing:
            return
        raise missing_table_error(backend, warehouse, name)
    entry, path = _iceberg_entry(backend, name), _path(backend, name)
    facts = {} if path is None else {"path": path}
    message = "not all files of the table could be deleted"
    with finished_by(message, lambda: _deletes_rest(backend, name), table=name, **facts):
        backend.drop_table(name)
    remove_entry(entry)


def rename_table(backend: CatalogBackend, warehouse: str, name: str, new_name: str) -> None:
    """Give a table another name, also in its catalog of Iceberg."""
    if not backend.has_table(name):
        raise missing_table_error(backend, warehouse, name)
    database, table = split_name(new_name)
    check_name(table, "table")
    if backend.has_table(new_name):
        raise ConfigError(
            f"table {new_name!r} exists already",
            warehouse=warehouse,
            hint="choose another name; after a rename that was killed in an object store, drop the one of the two"
            " that lacks files",
        )
    check_database(backend, warehouse, database)
    if backend.view(new_name) is not None:
        raise view_instead(new_name)
    entry = _iceberg_entry(backend, name)
    backend.rename_table(name, new_name)
    remove_entry(entry)
    if entry is not None:
        publish_if_enabled(_opened(backend, new_name))


def _opened(backend: CatalogBackend, name: str) -> TableStore:
    base, branch, _ = parse_name(name)
    return backend.open(base, branch)


def _path(backend: CatalogBackend, name: str) -> str | None:
    try:
        return _opened(backend, name).paths.root
    except (TableCorrupt, TableMissing):
        return None


def _iceberg_entry(backend: CatalogBackend, name: str) -> Entry | None:
    try:
        store = _opened(backend, name)
        return entry_of(store, store.schema())
    except (TableCorrupt, TableMissing):
        return None  # damaged tables, and names without a folder, can be dropped and renamed, too


def _deletes_rest(backend: CatalogBackend, name: str) -> str:
    """Return what deletes the rest of a table."""
    try:
        exists = backend.has_table(name)
    except OSError:
        return "drop it again; if the catalog has no such name any more, delete the folder"
    return "drop it again" if exists else "the catalog has no such name any more: delete the folder"
