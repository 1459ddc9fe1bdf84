"""The row images of updates: which ones a target table needs, and updates that come without some columns.

A server whose binlog_row_image is not FULL logs incomplete images. Canal then omits the unchanged columns from
`mysqlType` and `data`, or from `data` only. In a table an omitted column is null, indistinguishable from a column
that was set to null, so such updates are counted and logged. With merge-engine=partial-update a null means unchanged,
and nothing is lost.

A delete that carries only its key has no value of the target table's sequence.field. It is older than every row of the
key and has no effect, so it is counted and logged too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from penstock.formats import format_named
from penstock.formats.change import Bools, ChangeBatch, ImageRule, RowBatch, SourceField, SourceSchema
from penstock.formats.message_format import RowColumns
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.pipelines.mapping.new_tables import NewTables
from penstock.pipelines.mapping.table_rules import TableRules
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER
from penstock.schema_evolution.drift import ColumnRules
from penstock.schema_evolution.types.source import TYPED
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.options.merge_engines import IGNORE_DELETE, SEQUENCE_FIELD
from penstock.table.schema.table_schema import TableSchema


def left_out(
    change: ChangeBatch,
    fetched: FetchedMessages | None,
    table: TableSchema,
    rules: ColumnRules,
    computed: frozenset[str],
) -> tuple[str, ...]:
    """Return the columns that one update of the batch lacks and that therefore become null.

    Returns nothing if inserts of the same schema lack them too, because then they were dropped at the source.
    `computed` are the columns that no source has: computed and metadata columns.
    """
    if fetched is None or fetched.format is None:
        return ()  # sources without messages never reach this: an incomplete row image is an error in their reader
    row_columns = format_named(fetched.format).row_columns
    if row_columns is None:
        return ()
    if not (change.kinds == UPDATE_AFTER).any() or not _may_omit_columns(change.schema, table):
        return ()
    undeclared = () if (change.kinds == INSERT).any() else _undeclared(change.schema, table, rules, computed)
    return undeclared or _unsent(change, fetched, row_columns)


def unordered_deletes(
    rows: RowBatch, source: SourceSchema, table: TableSchema, rules: ColumnRules, computed: frozenset[str]
) -> Bools:
    """Return which rows, fitted to the table, are deletes that have only their key and lack a sequence.field.

    A full image may contain null in a sequence.field: the row in the table then has null too, and is deleted.
    `computed` are the columns that no source has, which are no sign of a full image.
    """
    unordered: Bools = rows.kinds == DELETE
    sequence = () if table.typed[IGNORE_DELETE] else table.typed[SEQUENCE_FIELD]
    if not sequence or not unordered.any():
        return np.zeros(len(rows), dtype=np.bool_)
    unordered = unordered & np.logical_or.reduce([_is_null(rows, name) for name in sequence])
    computed = computed | {rules.name(field.name) for field in source.fields if _is_added(field)}
    for name in {*table.names} - {*table.primary_keys, *table.partition_keys, *computed}:
        if not unordered.any():
            break
        unordered = unordered & _is_null(rows, name)
    return unordered


def _is_null(rows: RowBatch, name: str) -> Bools:
    return np.asarray(pc.is_null(rows.rows.column(name)), dtype=np.bool_)


def updates(change: ChangeBatch) -> int:
    return int(np.count_nonzero(change.kinds == UPDATE_AFTER))


def _may_omit_columns(source: SourceSchema, table: TableSchema) -> bool:
    return source.dialect != "text" and not merge_engine(table.typed).null_means_unchanged


def _undeclared(
    source: SourceSchema, table: TableSchema, rules: ColumnRules, computed: frozenset[str]
) -> tuple[str, ...]:
    given = {rules.name(field.name) for field in source.fields}
    return tuple(name for name in table.names if name not in given and name not in computed)


def _unsent(change: ChangeBatch, fetched: FetchedMessages, row_columns: RowColumns) -> tuple[str, ...]:
    """Return the columns that the first update declares but whose values its row lacks."""
    first = int(change.positions[int(np.argmax(change.kinds == UPDATE_AFTER))])
    # Only the message itself shows which columns it had: after decoding, absent and null are the same.
    place = int(np.searchsorted(fetched.messages.offsets, first))
    sent = row_columns(fetched.messages.values[place] or b"")
    return () if sent is None else _absent(change.schema, sent)


def _absent(source: SourceSchema, row: Collection[str]) -> tuple[str, ...]:
    return tuple(field.name for field in source.fields if field.name not in row and not _is_added(field))


def _is_added(column: SourceField) -> bool:
    """Return whether a transform or a route has added the column, which is in no message then."""
    return (column.type or "").startswith(TYPED)


@dataclass(frozen=True, slots=True)
class TargetImages:
    """An `ImagePolicy`. `known` are the schemas of the target tables that exist.

    Images that no target table needs are dropped while messages are decoded, before anything is done with them.
    """

    target: Callable[[str | None, str | None], str | None]
    needs_names: bool  # rows of source tables without a name are not written to any table
    table_rules: TableRules
    new_tables: NewTables
    known: Mapping[str, TableSchema]
    # Each layout of messages asks again for the rules of its tables.
    _rules: dict[tuple[str | None, str | None, tuple[str, ...]], ImageRule] = field(default_factory=dict, compare=False)

    def rule(self, database: str | None, table: str | None, primary_keys: tuple[str, ...]) -> ImageRule:
        """Return the image rule of a source table with these primary keys."""
        source = database, table, primary_keys
        found = self._rules.get(source)
        if found is None:
            found = self._rules[source] = self._rule(*source)
        return found

    def _rule(self, database: str | None, table: str | None, primary_keys: tuple[str, ...]) -> ImageRule:
        transform = self.table_rules.transform(database, table)
        if transform is not None and transform.needs_before:
            # Only both images show that an update takes a row into the filter or out of it, or moves it to another
            # key of the transform.
            return ImageRule("all", frozenset(primary_keys))
        nameless = self.needs_names and (database is None or table is None)
        name = None if nameless else self.target(database, table)
        schema = self.known.get(name) if name else None
        keeps = self.table_rules.marks_deletes(database, table)
        if schema is None:
            return ImageRule("key-changes", frozenset(primary_keys), keeps_deleted=keeps)
        # If a key or partition column changes, the old image is needed to delete the row at its old place.
        keys = self.new_tables.sources_of({*schema.primary_keys, *schema.partition_keys})
        # Deletes that are ignored may have no effect.
        sequence = () if schema.typed[IGNORE_DELETE] else schema.typed[SEQUENCE_FIELD]
        return ImageRule(
            "all" if needs_before(schema) else "key-changes",
            frozenset({*keys, *primary_keys}),
            frozenset(self.new_tables.sources_of(sequence)),
            keeps,
        )


def needs_before(schema: TableSchema) -> bool:
    """Return whether the table needs the old rows of all updates."""
    return schema.typed[CHANGELOG_PRODUCER].copies_input or merge_engine(schema.typed).needs_before_images
