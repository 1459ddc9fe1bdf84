"""Changes of the definitions of captured tables between two plans: dropped tables, new columns, changed types.

The log of PostgreSQL contains no DDL, and no row shows the value of a new column with a default in older rows, or the
values after ALTER COLUMN TYPE. So each plan compares the catalog with the definitions in the offsets. A change is acted
on once the log has passed the position at which it was found: later rows of the log have the new definition.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from penstock.ingest.postgres.definition_change import definition_change
from penstock.ingest.postgres.offsets import AlteredKind, AlteredTable, PgBatch, PgProgress
from penstock.ingest.postgres.older_definitions import note_uncompared
from penstock.ingest.postgres.server.catalog import PgTableFacts, TableName
from penstock.ingest.postgres.server.lsn import lsn_text, reachable_end
from penstock.ingest.postgres.server.table_version import TableVersion, versions_of
from penstock.ingest.source import SILENT_VALUES

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.settings import PgSettings

log = logging.getLogger(__name__)
_KEPT = (
    "the table does not exist under this name any more; its rows stay in the target table; use --on-drop delete-all, "
    "or  ddl: {drop: delete-all}  in a file, to delete them"
)


def noted(
    connection: PgConnection, settings: PgSettings, progress: PgProgress, tables: Sequence[PgTableFacts]
) -> PgProgress:
    """Return the state with the changes of known tables since the last plan. `tables` are all that exist now."""
    existing = {table.name: table for table in tables}
    note_uncompared(progress, existing)
    # A table that was created again was dropped.
    dropped = {altered.name for altered in progress.altered if altered.kind == "drop"}
    found: dict[TableName, tuple[AlteredKind, Sequence[str]]] = {
        name: change
        for name, before in progress.versions.items()
        if name not in dropped
        and (change := definition_change(connection, settings, progress.slot, before, existing.get(name)))
    }
    gone = dropped | {name for name, (kind, _) in found.items() if kind == "drop"}
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
    earlier = {altered.name: altered for altered in progress.altered}
    # A table that was altered again needs to be read again only once, after the last change.
    kept = [altered for altered in progress.altered if altered.name not in found]
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


def applied(settings: PgSettings, progress: PgProgress) -> PgProgress | None:
    """Return the batch that applies the changes which the log has passed; None without such changes."""
    due = [altered for altered in progress.altered if altered.position <= progress.log]
    if not due:
        return None
    dropped = [altered.name for altered in due if altered.kind == "drop"]
    if dropped and not settings.follows_drop:
        for schema, table in dropped:
            log.warning("event=drop_not_followed table=%s.%s note=%s", schema, table, _KEPT)
    kinds: set[str] = {"added-columns", "changed-values", "replaced", *(["drop"] if settings.follows_drop else [])}
    barriers = tuple(altered.barrier for altered in due if altered.kind in kinds)
    ignored = [
        altered.kind
        for altered in due
        if altered.kind in {"rows-moved", "rename-column", "unpublished"}
        or (altered.kind == "drop" and not settings.follows_drop)
    ]
    # Tables that are new are read, and nothing else has changed.
    if changed := [altered for altered in due if altered.kind != "new"]:
        log.info("event=definitions_changed tables=%s position=%s", _written(changed), lsn_text(progress.log))
    batch = PgBatch(progress.log, (), barriers, ignored=tuple(ignored))
    later = tuple(altered for altered in progress.altered if altered not in due)
    new = [altered.name for altered in due if altered.kind in {"new", "replaced"}]
    return replace(forgotten(progress, dropped), altered=later, batch=batch).reading(new)


def forgotten(progress: PgProgress, dropped: Collection[TableName]) -> PgProgress:
    """Return the state without these tables. One that exists, or that is included again, is new to the next plan."""
    return replace(
        progress.without(dropped),
        known=tuple(name for name in progress.known if name not in dropped),
        versions={name: version for name, version in progress.versions.items() if name not in dropped},
        altered=tuple(altered for altered in progress.altered if altered.name not in dropped),
    )


def _written(tables: Sequence[AlteredTable]) -> str:
    return ",".join(".".join(table.name) for table in tables)
