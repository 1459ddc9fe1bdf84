"""Partitions that were created and removed again since the last plan: only the log shows that they existed.

The rows that they had when they were dropped or detached leave the table without a change in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.ingest.postgres.altered_tables import with_altered
from penstock.ingest.postgres.definition_change import PARTITION_ROWS_STAY
from penstock.ingest.postgres.offsets import AlteredKind, PgProgress
from penstock.ingest.postgres.server.catalog import list_tables
from penstock.ingest.postgres.server.partitions import moved_partitions

if TYPE_CHECKING:
    from penstock.ingest.postgres.log.partitions import LoggedPartition
    from penstock.ingest.postgres.server.catalog import TableName
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.settings import PgSettings

log = logging.getLogger(__name__)
ROWS_MOVED: Final = "rows-moved"
_COVERING = frozenset({ROWS_MOVED, "replaced", "drop"})


def reported(progress: PgProgress) -> dict[TableName, int]:
    """Return the tables that lost rows without a logged change, each with the position in the log."""
    return {altered.name: altered.position for altered in progress.altered if altered.kind in _COVERING}


def tables_with_gone(
    connection: PgConnection,
    partitions: Sequence[LoggedPartition],
    tables: Mapping[TableName, Sequence[int]],
    reported: Mapping[TableName, int],
) -> dict[TableName, list[str]]:
    """Return the tables with logged rows of partitions that they no longer have, and the names of these partitions.

    `tables` have the `parts` that the last plan saw. The next plan finds partitions that have left a table since then.
    """
    found: dict[TableName, list[str]] = {}
    for table, partition in _gone(connection, partitions):
        if table in tables and partition.position >= reported.get(table, 0):
            found.setdefault(table, []).append(partition.name)
    now = {table.name: table for table in list_tables(connection)} if found else {}
    left = {name for name in found.keys() & now.keys() if moved_partitions(connection, tables[name], now[name])[1]}
    return {name: names for name, names in found.items() if name not in left}


def warn_of_gone(tables: Mapping[TableName, Sequence[str]]) -> None:
    """Log that rows of partitions stay in the target tables."""
    for table, names in tables.items():
        gone = ",".join(dict.fromkeys(names))
        log.warning(
            "event=rows_moved_unlogged table=%s.%s how=DETACH PARTITION or DROP TABLE partitions=%s note=%s",
            *(*table, gone, PARTITION_ROWS_STAY),
        )


def with_gone(
    connection: PgConnection, settings: PgSettings, progress: PgProgress, partitions: Sequence[LoggedPartition]
) -> PgProgress:
    """Return the state in which tables that lost such partitions are emptied and read again."""
    names = set(progress.known) - set(progress.batch.without)
    tables = {name: progress.versions[name].parts if name in progress.versions else () for name in names}
    found = tables_with_gone(connection, partitions, tables, reported(progress))
    if not found:
        return progress
    kind: AlteredKind = "replaced"
    if not settings.reads_tables:
        kind = ROWS_MOVED
        warn_of_gone(found)
    return with_altered(connection, progress, dict.fromkeys(found, (kind, ())))


def _gone(connection: PgConnection, partitions: Sequence[LoggedPartition]) -> list[tuple[TableName, LoggedPartition]]:
    """Return the partitions that have left tables which still exist, with the names of these tables."""
    pairs = {(partition.root, partition.oid): partition for partition in partitions}
    if not pairs:
        return []
    values = ", ".join(f"({root}::oid, {oid}::oid)" for root, oid in pairs)
    rows = connection.rows(
        f"SELECT n.nspname, c.relname, v.root, v.part FROM (VALUES {values}) v(root, part) JOIN pg_class c "
        "ON c.oid = v.root JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'p' AND NOT EXISTS "
        "(SELECT FROM pg_partition_ancestors(v.part) a WHERE a.relid = v.root) ORDER BY 1, 2, v.part"
    )
    return [((str(schema), str(table)), pairs[int(str(root)), int(str(part))]) for schema, table, root, part in rows]
