"""The tables of a PostgreSQL source: which exist and are captured, and whether they are published."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, SchemaConflict
from penstock.ingest.database.nothing_captured import nothing_captured
from penstock.ingest.postgres.server.catalog import UNLOGGED, PgTableFacts, TableName, list_tables
from penstock.ingest.postgres.server.partitions import parts_without_log

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.settings import PgSettings

log = logging.getLogger(__name__)

_NO_KEY = "the source table has no primary key: ALTER TABLE ... ADD PRIMARY KEY"
_NO_LOG = "the source table is UNLOGGED, so no log has its changes: ALTER TABLE ... SET LOGGED"


def captured(connection: PgConnection, settings: PgSettings) -> list[PgTableFacts]:
    """Return the tables that exist now and are captured."""
    return [table for table in selected(connection, settings) if table.has_key]


def selected(connection: PgConnection, settings: PgSettings) -> list[PgTableFacts]:
    """Return the tables that exist now and are selected, including those without a key."""
    return chosen(list_tables(connection), settings)


def chosen(tables: Iterable[PgTableFacts], settings: PgSettings) -> list[PgTableFacts]:
    """Return the selected ones of the tables, including tables without a key."""
    return [table for table in tables if table.is_logged and settings.tables.includes(*table.name)]


def left_out(connection: PgConnection, settings: PgSettings) -> dict[TableName, str]:
    """Return the selected tables that are not captured, each with the reason and the statement that changes it."""
    listed = [table for table in list_tables(connection) if settings.tables.includes(*table.name)]
    unlogged = dict.fromkeys((table.name for table in listed if table.is_unlogged), _NO_LOG)
    keyless = (table.name for table in listed if table.is_logged and not table.has_key)
    return dict.fromkeys(keyless, _NO_KEY) | unlogged


def publish(connection: PgConnection, settings: PgSettings, names: Sequence[TableName]) -> bool:
    """Make sure that the publication exists and has these tables; return whether it was changed."""
    return bool(names) and settings.publication.require(connection, names)


def check_keys(known: Sequence[PgTableFacts]) -> None:
    """Raise SchemaConflict if a table that is captured has lost its primary key."""
    keyless = [table.qualified for table in known if not table.has_key]
    if keyless:
        raise SchemaConflict(
            "captured tables have no primary key any more, so that their rows cannot be distinguished",
            tables=", ".join(keyless),
            hint="ALTER TABLE ... ADD PRIMARY KEY, or exclude them with --excluding-tables",
        )


def check_logged(connection: PgConnection, tables: Sequence[PgTableFacts], known: Sequence[PgTableFacts]) -> None:
    """Raise SchemaConflict if a captured table, or a partition of one, is UNLOGGED. `tables` are all that exist."""
    unlogged = [table.qualified for table in known if table.is_unlogged]
    if any(table.is_partition and table.persistence == UNLOGGED for table in tables):
        unlogged += [part for _, part, is_foreign in parts_without_log(connection, known) if not is_foreign]
    if unlogged:
        raise SchemaConflict(
            "captured tables or partitions of them are UNLOGGED, so that no log has their changes",
            tables=", ".join(unlogged),
            hint="ALTER TABLE ... SET LOGGED, then start with --reset TABLE; or exclude them with --excluding-tables",
        )


def tables_to_capture(connection: PgConnection, settings: PgSettings, *, must: bool) -> list[PgTableFacts]:
    """Return the tables to capture; with `must`, an empty list is a ConfigError."""
    found = selected(connection, settings)
    keyless = [table.qualified for table in found if not table.has_key]
    if keyless and settings.keyless_stops:
        raise ConfigError(
            "some of the tables to capture have no primary key",
            paimon_message="Source tables of PostgreSQL table synchronization job cannot contain table which doesn't "
            "have primary keys.",
            tables=", ".join(keyless),
            hint="ALTER TABLE ... ADD PRIMARY KEY, or leave them out of the tables",
        )
    if keyless:
        log.warning("event=tables_without_key left_out=%s", ",".join(keyless))
    unlogged = [
        table for table in list_tables(connection) if table.is_unlogged and settings.tables.includes(*table.name)
    ]
    if unlogged:
        note = "no log has their changes: ALTER TABLE ... SET LOGGED"
        log.warning("event=tables_unlogged left_out=%s note=%s", ",".join(table.qualified for table in unlogged), note)
    keyed = [table for table in found if table.has_key]
    if not keyed and must:
        seen = [table.name for table in list_tables(connection)]
        hint = "names are regular expressions that match the whole; tables need a primary key"
        raise nothing_captured(settings.tables, seen, keyless, hint, "schemas")
    return keyed
