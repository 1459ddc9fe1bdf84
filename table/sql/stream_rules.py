"""The rules for sources and targets of streams: no row may remain that is no longer in the result."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.table.handle import Table
from penstock.table.merge.engines.registry import merge_engine, merge_spec
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.sql.stream_queries import refused
from penstock.table.sql.stream_reader import StreamReader

_PRODUCER = "ALTER TABLE t SET ('changelog-producer' = 'lookup') for the source, then CALL sys.compact"


def check_source(reader: StreamReader) -> None:
    """Refuse conditions on columns whose old values are not known: a row that no longer matches would remain."""
    if reader.has_old_rows or reader.branch.filtered_by <= set(reader.table.primary_keys):
        return
    why = f"its condition needs the old rows of updates, and {reader.name} has no changelog"
    raise refused(reader.branch.place, why, f"{_PRODUCER}; or a condition on columns of its primary key")


def check_target(reader: StreamReader, table: Table, columns: Mapping[str, int]) -> None:
    """Refuse targets that the changes cannot be written to. `columns` are numbers of columns of the query."""
    if not reader.has_keys:
        return
    if not table.primary_keys:
        if merge_engine(reader.table.definition.typed).oldest_wins:  # the changelog of first-row is new rows only
            return
        hint = f"INSERT INTO a table with a primary key; or read the changes as rows: FROM {reader.name}$audit_log"
        raise refused(reader.branch.place, f"{table.name} has no primary key, and rows of it are not updated", hint)
    if reader.has_old_rows:
        return
    spec = merge_spec(table.definition)
    if spec.engine.needs_before_images or spec.aggregates:
        why = f"{table.name} needs the old rows of updates, and {reader.name} has no changelog"
        raise refused(reader.branch.place, why, _PRODUCER)
    _check_keys(reader, table, columns)


def _check_keys(reader: StreamReader, table: Table, columns: Mapping[str, int]) -> None:
    """Refuse a target whose key may change when a row of the source is updated."""
    origins = reader.origins()
    for name in table.primary_keys:
        if name not in columns:  # PARTITION (dt = 'x'), or the default of the column
            continue
        if origins is None or not origins[columns[name]] <= set(reader.table.primary_keys):
            why = f"the key {name!r} of {table.name} may change with an update, and {reader.name} has no changelog"
            raise refused(reader.branch.place, why, _PRODUCER)


def needs_old_rows(table: Table) -> bool:
    """Return whether -U rows have a meaning to the table: the rule of Paimon's sink."""
    schema = table.definition
    spec = merge_spec(schema)
    return schema.typed[CHANGELOG_PRODUCER].copies_input or spec.engine.needs_before_images or bool(spec.aggregates)
