"""Columns to which DDL gave values in existing rows: the binlog does not contain these values.

Such DDL adds a column with a value, or changes the type or the expression of a column.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog.log_plan import LoggedDdl, LogPlan
from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.ddl.kept_values import rewritten_columns
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.server.catalog import TableName, columns_with_values
from penstock.ingest.mysql.settings import FollowSettings
from penstock.ingest.mysql.whole_table_ddl import is_a_tools_swap
from penstock.ingest.source import Barrier, BarrierKind

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
        present = set(added) if last is None else {column.name for column in last.columns}
        columns = [
            name
            for name in added
            if name in present and (name in filled or history.had_column(version.name, name, version.file, version.pos))
        ]
        if columns:
            found.setdefault(version.name, []).extend(columns)
    return found


def rewritten_in(
    settings: FollowSettings, history: SchemaHistory, defined: Iterable[LoggedDdl]
) -> dict[TableName, list[str]]:
    """Return the columns that have other values in older rows after the statements that begin these definitions.

    Tables that are emptied and read again after these statements, because rows got other keys, are left out.
    """
    if not (settings.fills_added_columns and settings.reads_tables):
        return {}
    found: dict[TableName, dict[str, None]] = {}
    defined = list(defined)
    renamed = {(seen.change.name, old) for seen in defined for old, _ in seen.change.renamed_columns}
    for seen in defined:
        change, columns = seen.change, seen.change.rewritten_columns
        if change.old_name is not None and is_a_tools_swap(change.old_name, change.name):
            before = history.definition_at(change.name, seen.file, seen.pos - 1)
            if before is not None and change.definition is not None:
                columns = rewritten_columns(before, change.definition, spelled=settings.rules.spelled)
        if columns and not (settings.empties_rewritten and change.rewrites_key):
            last = history.tables.known.get(change.name)
            # A column that was dropped since cannot be read any more, and rows that are read again lack its values.
            left = [
                column for column in columns if last is None or last.column(column) or (change.name, column) in renamed
            ]
            found.setdefault(change.name, {}).update(dict.fromkeys(left))
    return {name: list(columns) for name, columns in found.items() if columns}


def _added(history: SchemaHistory, version: DefinitionVersion) -> list[str]:
    """Return the columns that a table has from this version on, if there was a table before."""
    before = history.definition_at(version.name, version.file, version.pos - 1)
    if version.definition is None or before is None:
        return []
    names = {column.name for column in before.columns}
    return [column.name for column in version.definition.columns if column.name not in names]


def tables_with_mixed_columns(
    settings: FollowSettings, progress: Progress, plan: LogPlan, filled: Collection[TableName]
) -> list[TableName]:
    """Return the tables that renamed a column during the snapshot, or got values by a statement.

    Their snapshot rows already have the new column or value. Older binlog events do not, and would overwrite them, so
    these tables are read again. `filled` are the tables that got values.
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


def with_filled(
    progress: Progress,
    filled: Mapping[TableName, Sequence[str]],
    rewritten: Mapping[TableName, Sequence[str]],
    without: Collection[TableName] = (),
) -> Progress:
    """Return the batch with a request to read tables again for values in older rows, except for those `without`."""
    kinds: tuple[tuple[BarrierKind, str, Mapping[TableName, Sequence[str]]], ...] = (
        ("added-columns", "added_columns_have_values", filled),
        ("changed-values", "values_changed_by_statement", rewritten),
    )
    added = []
    for kind, event, tables in kinds:
        for name, columns in tables.items():
            if name not in without:
                log.info("event=%s source=%s.%s columns=%s", event, *name, ",".join(columns))
                added.append(Barrier(kind, *name, columns=tuple((column, column) for column in columns)))
    batch = replace(progress.batch, barriers=(*progress.batch.barriers, *added))
    return replace(progress, batch=batch) if added else progress
