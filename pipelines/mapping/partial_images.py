"""Detects updates with incomplete row images, from a server whose binlog_row_image is not FULL.

Canal then omits the unchanged columns from `mysqlType` and `data`, or from `data` only. In a table an omitted column is
null, indistinguishable from a column that was set to null, so such updates are counted and logged. With
merge-engine=partial-update a null means unchanged, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from penstock.formats import format_named
from penstock.formats.change import ChangeBatch, SourceSchema
from penstock.formats.message_format import RowColumns
from penstock.ingest.fetched_chunk import FetchedMessages
from penstock.row_kinds import INSERT, UPDATE_AFTER
from penstock.schema_evolution.drift import ColumnRules
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.schema.table_schema import TableSchema


def left_out(
    change: ChangeBatch, fetched: FetchedMessages | None, table: TableSchema, rules: ColumnRules, made: frozenset[str]
) -> tuple[str, ...]:
    """Return the columns that one update of the batch lacks and that therefore become null.

    Returns nothing if inserts of the same schema lack them too, because then they were dropped at the source. `made`
    are the columns that no source has: computed and metadata columns.
    """
    if fetched is None or fetched.format is None:
        return ()  # sources without messages never reach this: an incomplete row image is an error in their reader
    row_columns = format_named(fetched.format).row_columns
    if row_columns is None:
        return ()
    if not (change.kinds == UPDATE_AFTER).any() or not _may_omit_columns(change.schema, table):
        return ()
    undeclared = () if (change.kinds == INSERT).any() else _undeclared(change.schema, table, rules, made)
    return undeclared or _unsent(change, fetched, row_columns)


def updates(change: ChangeBatch) -> int:
    return int(np.count_nonzero(change.kinds == UPDATE_AFTER))


def _may_omit_columns(source: SourceSchema, table: TableSchema) -> bool:
    return source.dialect != "text" and not merge_engine(table.typed).null_means_unchanged


def _undeclared(source: SourceSchema, table: TableSchema, rules: ColumnRules, made: frozenset[str]) -> tuple[str, ...]:
    given = {rules.name(one.name) for one in source.fields}
    return tuple(name for name in table.names if name not in given and name not in made)


def _unsent(change: ChangeBatch, fetched: FetchedMessages, row_columns: RowColumns) -> tuple[str, ...]:
    """Return the columns that the first update declares but whose values its row lacks."""
    first = int(change.positions[int(np.argmax(change.kinds == UPDATE_AFTER))])
    place = int(np.searchsorted(fetched.messages.offsets, first))
    sent = row_columns(fetched.messages.values[place] or b"")
    return () if sent is None else _absent(change.schema, sent)


def _absent(source: SourceSchema, row: Collection[str]) -> tuple[str, ...]:
    return tuple(one.name for one in source.fields if one.name not in row)
