"""Changes of the definitions of captured tables between two plans: tables that are gone, and columns with values.

The log of PostgreSQL contains no DDL, and no row shows the value of a new column with a default in older rows, or the
values after ALTER COLUMN TYPE. So each plan compares the catalog with the definitions in the offsets. A change is acted
on once the log has passed the position at which it was found: later rows of the log have the new definition.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from penstock.ingest.postgres.key_changes import note_changed_key
from penstock.ingest.postgres.offsets import AlteredKind, AlteredTable, PgBatch, PgProgress
from penstock.ingest.postgres.older_definitions import note_uncompared
from penstock.ingest.postgres.server.catalog import PgTableFacts, TableName
from penstock.ingest.postgres.server.emptied_partitions import emptied_partitions
from penstock.ingest.postgres.server.lsn import lsn_text, reachable_end
from penstock.ingest.postgres.server.partitions import moved_partitions
from penstock.ingest.postgres.server.silent_columns import changed_silently
from penstock.ingest.postgres.server.table_version import (
    TableVersion,
    filled_columns,
    last_changed_columns,
    renamed_columns,
    versions_of,
)
from penstock.ingest.source import SILENT_VALUES

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.settings import PgSettings

log = logging.getLogger(__name__)
_KEPT = (
    "the table does not exist under this name any more; its rows stay in the target table; use --on-drop delete-all, "
    "or  ddl: {drop: delete-all}  in a file, to delete them"
)

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


def noted(
    connection: PgConnection, settings: PgSettings, progress: PgProgress, tables: Sequence[PgTableFacts]
) -> PgProgress:
    """Return the state with the changes of known tables since the last plan. `tables` are all that exist now."""
    existing = {table.name: table for table in tables}
    note_uncompared(progress, existing)
    found: dict[TableName, tuple[AlteredKind, Sequence[str]]] = {
        name: (kind, columns) for name, kind, columns in _changes(connection, settings, progress, existing)
    }
    gone = {name for name, (kind, _) in found.items() if kind == "drop"}
    gone |= {one.name for one in progress.altered if one.kind == "drop"}
    changed = [
        existing[name]
        for name in progress.known
        if name in existing and name not in gone and not _is_same(progress.versions.get(name), existing[name])
    ]
    if changed:
        now = versions_of(connection, changed)
        for name in found.keys() & now.keys():
            kind, columns = found[name]
            found[name] = _with_key(settings, kind, columns, progress.versions[name], now[name])
        versions = {name: version.after(progress.versions.get(name)) for name, version in now.items()}
        progress = replace(progress, versions={**progress.versions, **versions})
    return with_altered(connection, progress, found) if found else progress


def with_altered(
    connection: PgConnection,
    progress: PgProgress,
    found: Mapping[TableName, tuple[AlteredKind, Sequence[str]]],
) -> PgProgress:
    """Return the state with these changes of tables, which are acted on once the log has passed its current end."""
    # Later than the commit of the change, which the catalog showed.
    position = reachable_end(connection)
    earlier = {one.name: one for one in progress.altered}
    # A table that was altered again needs to be read again only once, after the last change.
    kept = [one for one in progress.altered if one.name not in found]
    new = [
        _again(AlteredTable(kind, name, position, tuple(columns)), earlier.get(name))
        for name, (kind, columns) in found.items()
    ]
    return replace(progress, altered=(*kept, *new))


def _with_key(
    settings: PgSettings, kind: AlteredKind, columns: Sequence[str], before: TableVersion, now: TableVersion
) -> tuple[AlteredKind, Sequence[str]]:
    """Return a change of values as one of keys, if the values may be in the key too."""
    if kind in {"drop", "replaced"} or before.key_marks == now.key_marks or before.files in {0, now.files}:
        return kind, columns
    # A target with several sources cannot be emptied for one of them: the driver says so.
    return ("changed-values", [*columns, *now.key]) if settings.shares_targets else ("replaced", ())


def _again(table: AlteredTable, earlier: AlteredTable | None) -> AlteredTable:
    """Return the change of a table together with an earlier one that the log has not passed either."""
    if earlier is None or table.kind == "drop":
        return table
    kind = max(earlier.kind, table.kind, key=get_args(AlteredKind).index)
    columns = tuple(dict.fromkeys([*earlier.columns, *table.columns])) if kind in SILENT_VALUES else ()
    return replace(table, kind=kind, columns=columns)


def with_new(connection: PgConnection, progress: PgProgress, names: Sequence[TableName]) -> PgProgress:
    """Return the state in which these new tables are read once the log has passed its current end."""
    position = reachable_end(connection)
    return replace(progress, altered=(*progress.altered, *(AlteredTable("new", name, position) for name in names)))


def _is_same(version: TableVersion | None, table: PgTableFacts) -> bool:
    return version is not None and version.is_same(table)


def _changes(
    connection: PgConnection,
    settings: PgSettings,
    progress: PgProgress,
    existing: Mapping[TableName, PgTableFacts],
) -> Iterator[tuple[TableName, AlteredKind, list[str]]]:
    """Yield the changes since the known versions, with the columns to fill.

    A table that was created again was dropped.
    """
    fills_columns = settings.fills_added_columns and settings.reads_tables
    gone = {one.name for one in progress.altered if one.kind == "drop"}
    for name, before in progress.versions.items():
        now = existing.get(name)
        if name in gone:
            continue
        if now is None or now.oid != before.oid:
            yield name, "drop", []
            continue
        note_changed_key(connection, before, now)
        came, left = moved_partitions(connection, before.parts, now)
        emptied = emptied_partitions(connection, progress.slot, before, now)
        if (left or (emptied.names and emptied.is_sure)) and settings.follows_truncate and settings.reads_tables:
            yield name, "replaced", []
            continue
        if left:
            log.warning(
                "event=rows_moved_unlogged table=%s.%s how=DETACH PARTITION note=%s", *name, PARTITION_ROWS_STAY
            )
        if emptied.names:
            note = PARTITION_ROWS_STAY if emptied.is_sure else _UNSURE
            which, parts = "truncate_not_followed" if emptied.is_sure else "partitions_rewritten", emptied.names
            log.warning("event=%s table=%s.%s partitions=%s note=%s", which, *name, ",".join(parts), note)
        values = _unlogged_values(connection, settings, before, now) if fills_columns else None
        if values is not None:
            yield name, *values
        elif came and settings.reads_tables:
            log.info("event=partitions_attached table=%s.%s", *name)
            yield name, "new", []
        else:
            renamed = [one for names in renamed_columns(connection, before, now) for one in names]
            if renamed:
                log.warning(
                    "event=rename_not_followed table=%s.%s columns=%s note=%s", *name, ",".join(renamed), _RENAMED
                )
            if _was_unlogged(connection, before, now):
                log.warning("event=table_may_have_been_unlogged table=%s.%s note=%s", *name, _UNLOGGED)
                yield name, "unpublished", []
            elif left or emptied.names:
                yield name, "rows-moved", []
            elif renamed:
                yield name, "rename-column", []


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


def applied(settings: PgSettings, progress: PgProgress) -> PgProgress | None:
    """Return the batch that applies the changes which the log has passed; None without such changes."""
    due = [one for one in progress.altered if one.position <= progress.log]
    if not due:
        return None
    dropped = [one.name for one in due if one.kind == "drop"]
    if dropped and not settings.follows_drop:
        for schema, table in dropped:
            log.warning("event=drop_not_followed table=%s.%s note=%s", schema, table, _KEPT)
    kinds: set[str] = {"added-columns", "changed-values", "replaced", *(["drop"] if settings.follows_drop else [])}
    barriers = tuple(one.barrier for one in due if one.kind in kinds)
    ignored = [
        one.kind
        for one in due
        if one.kind in {"rows-moved", "rename-column", "unpublished"}
        or (one.kind == "drop" and not settings.follows_drop)
    ]
    # Tables that are new are read, and nothing else has changed.
    if changed := [one for one in due if one.kind != "new"]:
        log.info("event=definitions_changed tables=%s position=%s", _written(changed), lsn_text(progress.log))
    batch = PgBatch(progress.log, (), barriers, ignored=tuple(ignored))
    later = tuple(one for one in progress.altered if one not in due)
    new = [one.name for one in due if one.kind in {"new", "replaced"}]
    return replace(forgotten(progress, dropped), altered=later, batch=batch).reading(new)


def forgotten(progress: PgProgress, dropped: Collection[TableName]) -> PgProgress:
    """Return the state without these tables. One that exists, or that is included again, is new to the next plan."""
    return replace(
        progress.without(dropped),
        known=tuple(name for name in progress.known if name not in dropped),
        versions={name: version for name, version in progress.versions.items() if name not in dropped},
        altered=tuple(one for one in progress.altered if one.name not in dropped),
    )


def _written(tables: Sequence[AlteredTable]) -> str:
    return ",".join(".".join(table.name) for table in tables)
