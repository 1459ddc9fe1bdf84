"""The change of a captured table between two plans, found by comparing the catalog with its known version."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.ingest.postgres.key_changes import note_changed_key
from penstock.ingest.postgres.server.emptied_partitions import EmptiedPartitions, emptied_partitions
from penstock.ingest.postgres.server.partitions import moved_partitions
from penstock.ingest.postgres.server.silent_columns import changed_silently
from penstock.ingest.postgres.server.table_version import filled_columns, last_changed_columns, renamed_columns

if TYPE_CHECKING:
    from penstock.ingest.postgres.offsets import AlteredKind
    from penstock.ingest.postgres.server.catalog import PgTableFacts, TableName
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.server.table_version import TableVersion
    from penstock.ingest.postgres.settings import PgSettings

log = logging.getLogger(__name__)
PARTITION_ROWS_STAY = (
    "rows of partitions that were detached, dropped or truncated stay in the target table; use --on-truncate "
    "delete-all, or  ddl: {truncate: delete-all}  in a file, to empty it and read it again"
)
_RENAMED = (
    "the new name becomes a new column, and rows that are not changed keep their value in the former one; start once "
    "with --reset TABLE to read the table again"
)
_UNLOGGED = (
    "its rows were rewritten since the last batch: pg_repack and SET ACCESS METHOD change no row, but after SET "
    "UNLOGGED and SET LOGGED no log has the changes in between; start once with --reset TABLE to read the table again"
)
_UNSURE = (
    "the server lacks test_decoding, so it is not known whether this was TRUNCATE, or VACUUM FULL or CLUSTER, which "
    "change nothing: install it (postgresql-contrib), and start once with --reset TABLE if it was TRUNCATE"
)


def definition_change(
    connection: PgConnection, settings: PgSettings, slot: str, before: TableVersion, now: PgTableFacts | None
) -> tuple[AlteredKind, list[str]] | None:
    """Return how a table was changed since a version, with the columns to fill; None if it was not.

    `now` is None if no table has this name any more. Changes that are not followed are logged.
    """
    if now is None or now.oid != before.oid:
        return "drop", []
    note_changed_key(connection, before, now)
    came, left = moved_partitions(connection, before.parts, now)
    emptied = emptied_partitions(connection, slot, before, now)
    if (left or (emptied.names and emptied.is_sure)) and settings.follows_truncate and settings.reads_tables:
        return "replaced", []
    _warn_of_rows_that_stay(now.name, emptied, is_detached=left)
    fills_columns = settings.fills_added_columns and settings.reads_tables
    if fills_columns and (values := _unlogged_values(connection, settings, before, now)):
        return values
    if came and settings.reads_tables:
        log.info("event=partitions_attached table=%s.%s", *now.name)
        return "new", []
    kind = _unfollowed(connection, before, now, has_left_rows=bool(left or emptied.names))
    return (kind, []) if kind else None


def _warn_of_rows_that_stay(name: TableName, emptied: EmptiedPartitions, *, is_detached: bool) -> None:
    if is_detached:
        log.warning("event=rows_moved_unlogged table=%s.%s how=DETACH PARTITION note=%s", *name, PARTITION_ROWS_STAY)
    if emptied.names:
        note = PARTITION_ROWS_STAY if emptied.is_sure else _UNSURE
        event = "truncate_not_followed" if emptied.is_sure else "partitions_rewritten"
        log.warning("event=%s table=%s.%s partitions=%s note=%s", event, *name, ",".join(emptied.names), note)


def _unfollowed(
    connection: PgConnection, before: TableVersion, now: PgTableFacts, *, has_left_rows: bool
) -> AlteredKind | None:
    """Return the kind of a change that is only reported, and log it."""
    renamed = [column for columns in renamed_columns(connection, before, now) for column in columns]
    if renamed:
        log.warning("event=rename_not_followed table=%s.%s columns=%s note=%s", *now.name, ",".join(renamed), _RENAMED)
    if _was_unlogged(connection, before, now):
        log.warning("event=table_may_have_been_unlogged table=%s.%s note=%s", *now.name, _UNLOGGED)
        return "unpublished"
    if has_left_rows:
        return "rows-moved"
    return "rename-column" if renamed else None


def _was_unlogged(connection: PgConnection, before: TableVersion, now: PgTableFacts) -> bool:
    """Return whether a table or a partition may have been UNLOGGED since a version."""
    if not before.may_have_been_unlogged(now):
        return False
    # The server refuses SET UNLOGGED of a table that is in a publication itself, but not of its partitions.
    listed = connection.value(f"SELECT EXISTS (SELECT FROM pg_publication_rel WHERE prrelid = {now.oid})")
    return now.kind == "p" or listed != "t"


def _unlogged_values(
    connection: PgConnection, settings: PgSettings, before: TableVersion, now: PgTableFacts
) -> tuple[AlteredKind, list[str]] | None:
    """Return the change of a table that has columns with values which its older rows in the log lack."""
    filled = filled_columns(connection, before, now) if now.columns > before.columns else []
    were_generated, relabelled = changed_silently(connection, now.oid, before.silent, now.silent)
    filled += were_generated
    # Older rows have the values of another column under a name that the table had before.
    _, taken = renamed_columns(connection, before, now)
    changed = relabelled + taken + (last_changed_columns(connection, now) if before.has_changed_values(now) else [])
    if filled:
        log.info("event=added_columns_have_values source=%s columns=%s", now.qualified, ",".join(filled))
    if relabelled or taken or (changed and not filled):
        log.info("event=values_changed_by_statement source=%s columns=%s", now.qualified, ",".join(changed))
    if {*were_generated, *relabelled, *taken} & {*before.key} and not settings.shares_targets:
        return "replaced", []
    if filled and not (relabelled or taken):
        return "added-columns", filled
    return ("changed-values", list(dict.fromkeys([*filled, *changed]))) if changed else None
