"""The entry of a table in an Iceberg catalog, Hive or REST, if the options of the table ask for one."""

from __future__ import annotations

import logging

from penstock.errors import ConfigError, PenstockError
from penstock.table.iceberg.hive_entry import HiveEntry
from penstock.table.iceberg.place import IcebergPlace
from penstock.table.iceberg.rest_entry import RestEntry
from penstock.table.meta.store import TableStore
from penstock.table.options.iceberg import ICEBERG_DATABASE, ICEBERG_STORAGE, ICEBERG_TABLE
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)

Entry = HiveEntry | RestEntry


def entry_of(store: TableStore, schema: TableSchema) -> Entry | None:
    """Return the entry that the options ask for; None if the metadata is only in files."""
    storage = schema.typed[ICEBERG_STORAGE]
    if storage == "hive-catalog":
        return HiveEntry.of(store, schema, *_name(store, schema))
    if storage == "rest-catalog":
        return RestEntry.of(store, schema, *_name(store, schema))
    return None


def follow_entry(store: TableStore, schema: TableSchema, place: IcebergPlace) -> None:
    """Update the entry to the newest version of the metadata, if the options ask for an entry."""
    match entry_of(store, schema):
        case HiveEntry() as entry:
            entry.follow(place, schema)
        case RestEntry() as entry:
            entry.follow(place)


def remove_entry(entry: Entry | None) -> None:
    """Drop the entry of a table that was dropped or renamed. A failure is logged, because the table has changed."""
    if entry is None:
        return
    try:
        entry.remove()
    except PenstockError as error:
        log.warning(
            "event=iceberg_entry_kept table=%s catalog=%s reason=%s (drop the table there, without its files)",
            entry,
            entry.metastore if isinstance(entry, HiveEntry) else entry.catalog,
            error,
        )


def _name(store: TableStore, schema: TableSchema) -> tuple[str, str]:
    database, table = schema.typed[ICEBERG_DATABASE], schema.typed[ICEBERG_TABLE]
    if database is None or table is None:
        in_database, _, name = store.name.rpartition(".")
        if not in_database or "/" in store.name:
            raise ConfigError(
                "a table that is not in a database of a warehouse has no name for the catalog",
                table=store.name,
                hint="set metadata.iceberg.database and metadata.iceberg.table",
            )
        database, table = database or in_database, table or name
    return database, table
