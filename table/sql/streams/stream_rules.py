"""The rules for sources and targets of streams: no row may remain that is no longer in the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from penstock.table.handle import Table
from penstock.table.lookup.dimension import Dimension
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.schema.table_schema import TableSchema
from penstock.table.sql.streams.lookup_joins import LookupJoin
from penstock.table.sql.streams.stream_queries import StreamBranch
from penstock.table.sql.streams.stream_text import refused

Dimensions: TypeAlias = Sequence[tuple[LookupJoin, Dimension]]
_PRODUCER = "ALTER TABLE t SET ('changelog-producer' = 'lookup') for the source, then CALL sys.compact"


def check_source(branch: StreamBranch, dimensions: Dimensions) -> None:
    """Refuse conditions on columns whose old values are not known: a row that no longer matches would remain."""
    if not (branch.source.has_old_rows or branch.filtered_by <= set(branch.source.table.primary_keys)):
        why = f"its condition needs the old rows of updates, and {branch.source.name} has no changelog"
        inner = "; or LEFT JOIN" if branch.lookups else ""
        raise refused(branch.place, why, f"{_PRODUCER}; or a condition on columns of its primary key{inner}")
    if branch.lookups and branch.source.changes_rows:
        _check_lookups(branch, dimensions)


def _check_lookups(branch: StreamBranch, dimensions: Dimensions) -> None:
    """Refuse a lookup if its present result does not show which rows an old row of the stream produced."""
    for join, dimension in dimensions:
        if not dimension.is_unique:
            by, keys = ", ".join(join.by), ", ".join(join.source.table.primary_keys)
            name = join.source.name
            why = f"{branch.source.name} has updates and deletes, and a row may have several matches in {name} by {by}"
            hint = f"compare its whole primary key ({keys})" if keys else "look up in a table with a primary key"
            raise refused(join.place, why, f"{hint}; or read new rows only, as from a table without a primary key")
    if branch.filters_lookups:
        why = "a condition on looked-up columns does not find the old rows of updates when they have changed"
        raise refused(branch.place, why, "write it after ON: JOIN dim ... AS d ON o.k = d.k AND d.c = 'x'")


def _check_lookup_target(branch: StreamBranch, table: Table, columns: Mapping[str, int]) -> None:
    """Refuse targets that need the previous rows: a lookup returns the present columns."""
    if needs_old_rows(table.definition):
        why = f"{table.name} needs the old rows of updates as they were, and a lookup finds today's columns"
        hint = "INSERT INTO a table WITH ('changelog-producer' = 'lookup') first, and fill this one from there"
        raise refused(branch.place, why, hint)
    looked_up = branch.looked_up
    for name in table.primary_keys:
        if name in columns and (looked_up is None or looked_up[columns[name]]):
            why = f"the key {name!r} of {table.name} is looked up, and an update would not find the old row"
            raise refused(branch.place, why, f"make the key of columns of {branch.source.name}")
    for field in table.definition.fields:
        if field.name not in columns or field.type.nullable or field.name in table.primary_keys:
            continue
        if looked_up is None or looked_up[columns[field.name]]:
            why = f"{field.name!r} of {table.name} is NOT NULL and looked up, and deletes of rows may have no match"
            raise refused(branch.place, why, f"ALTER TABLE t ALTER COLUMN {field.name} DROP NOT NULL")


def check_target(branch: StreamBranch, table: Table, columns: Mapping[str, int]) -> None:
    """Refuse targets that the changes cannot be written to. `columns` are numbers of columns of the query."""
    if (branch.source.table.path, branch.source.name) == (table.path, table.name):
        why = f"each commit to {table.name} would be read again"
        raise refused(branch.place, why, "INSERT INTO another table, or SET 'execution.runtime-mode' = 'batch'")
    if not branch.source.has_keys:
        return
    if not table.primary_keys:
        if not branch.source.changes_rows:
            return
        hint = (
            f"INSERT INTO a table with a primary key; or read the changes as rows: FROM {branch.source.name}$audit_log"
        )
        raise refused(branch.place, f"{table.name} has no primary key, and rows of it are not updated", hint)
    if branch.lookups and branch.source.changes_rows:
        _check_lookup_target(branch, table, columns)
    if branch.source.changes_rows:
        _check_moving_target(branch, table, columns)
    if branch.source.has_old_rows:
        return
    spec = merge_spec(table.definition)
    if spec.engine.needs_before_images or spec.aggregates:
        why = f"{table.name} needs the old rows of updates, and {branch.source.name} has no changelog"
        raise refused(branch.place, why, _PRODUCER)
    _check_keys(branch, table, columns)


def _check_moving_target(branch: StreamBranch, table: Table, columns: Mapping[str, int]) -> None:
    """Refuse targets in which an old row is not found, as functions such as now() have another value for it."""
    for name in table.primary_keys:
        if name in columns and branch.moves(columns[name]):
            why = f"the key {name!r} of {table.name} has another value each time, so that an update finds no old row"
            hint = f"make the key of columns of {branch.source.name}, without functions such as now() and random()"
            raise refused(branch.place, why, hint)
    if branch.filter_moves and needs_old_rows(table.definition):
        why = f"{table.name} needs the old rows that were written, and the condition has another result each time"
        hint = "INSERT INTO a table WITH ('changelog-producer' = 'lookup') first, and fill this one from there"
        raise refused(branch.place, why, f"leave functions such as now() and random() out of it; or {hint}")


def _check_keys(branch: StreamBranch, table: Table, columns: Mapping[str, int]) -> None:
    """Refuse a target whose key may change when a row of the source is updated."""
    origins = branch.origins()
    for name in table.primary_keys:
        if name not in columns:  # PARTITION (dt = 'x'), or the default of the column
            continue
        if origins is None or not origins[columns[name]] <= set(branch.source.table.primary_keys):
            why = (
                f"the key {name!r} of {table.name} may change with an update, and {branch.source.name} has no changelog"
            )
            raise refused(branch.place, why, _PRODUCER)


def needs_old_rows(schema: TableSchema) -> bool:
    """Return whether -U rows have a meaning to a table: the rule of Paimon's sink."""
    spec = merge_spec(schema)
    return schema.typed[CHANGELOG_PRODUCER].copies_input or spec.engine.needs_before_images or bool(spec.aggregates)
