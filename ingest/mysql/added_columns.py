"""Columns that are added to a table whose rows have values in them: the binlog does not show these values."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog.log_plan import LogPlan
from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.server.catalog import TableName, columns_with_values
from penstock.ingest.mysql.settings import FollowSettings
from penstock.ingest.source import Barrier

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

log = logging.getLogger(__name__)


def filled_columns(
    connection: Connection,
    facts: ServerFacts,
    settings: FollowSettings,
    history: SchemaHistory,
    versions: Iterable[tuple[DefinitionVersion, Collection[str]]],
) -> dict[TableName, list[str]]:
    """Return the columns added by these versions whose value in older rows is not the null that the target has.

    Each version comes with the columns to which its statement gives a value. Others may have a default now, or cannot
    be null. A column with a name that the table had before is not the same column: older rows have lost their values.
    """
    if not (settings.fills_added_columns and settings.reads_tables):
        return {}
    found: dict[TableName, list[str]] = {}
    for version, by_text in versions:
        added, filled = _added(history, version), set(by_text)
        if added:
            filled.update(columns_with_values(connection, version.name, is_mariadb=facts.is_mariadb))
        last = history.tables.known.get(version.name)
        # A column that was dropped or renamed since cannot be read any more.
        present = set(added) if last is None else {one.name for one in last.columns}
        columns = [
            one
            for one in added
            if one in present and (one in filled or history.had_column(version.name, one, version.file, version.pos))
        ]
        if columns:
            found.setdefault(version.name, []).extend(columns)
    return found


def _added(history: SchemaHistory, version: DefinitionVersion) -> list[str]:
    """Return the columns that a table has from this version on, if there was a table before."""
    before = history.definition_at(version.name, version.file, version.pos - 1)
    if version.definition is None or before is None:
        return []
    names = {one.name for one in before.columns}
    return [one.name for one in version.definition.columns if one.name not in names]


def tables_with_mixed_columns(
    settings: FollowSettings, progress: Progress, plan: LogPlan, filled: Collection[TableName]
) -> list[TableName]:
    """Return the tables that renamed a column during the snapshot, or added one that older rows have a value in.

    Their snapshot rows already have the new column. Older binlog events do not, and would overwrite them, so these
    tables are read again. `filled` are the tables with such a column.
    """
    altered = [seen for seen in (*plan.ddl, *plan.barrier) if settings.tables.includes(*seen.change.name)]
    # Without a position to settle at, rows of the snapshot are mixed with older events only while tables are read.
    if progress.settle is None:
        all_mixed = progress.reads_tables
    else:
        all_mixed = progress.unsettled or progress.log.is_before(progress.settle)
    if not all_mixed:
        # New tables are read while others stream, and rows of those come only from the binlog by now.
        altered = [seen for seen in altered if seen.change.name in progress.unread]
    return [seen.change.name for seen in altered if seen.change.renamed_columns or seen.change.name in filled]


def with_filled(progress: Progress, filled: Mapping[TableName, Sequence[str]]) -> Progress:
    """Return the batch with a request to read tables again for columns that have values in older rows."""
    for name, columns in filled.items():
        log.info("event=added_columns_have_values source=%s.%s columns=%s", *name, ",".join(columns))
    added = [
        Barrier("added-columns", *name, columns=tuple((one, one) for one in columns))
        for name, columns in filled.items()
    ]
    batch = replace(progress.batch, barriers=(*progress.batch.barriers, *added))
    return replace(progress, batch=batch) if added else progress
