"""The system tables with the table's own rows: audit_log, binlog, read_optimized and row_tracking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.row_kinds import ROWKIND
from penstock.table.buckets.layout import Layout
from penstock.table.files.row_tracking import TRACKED, is_tracked
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.writers import ROW_TRACKING_ENABLED
from penstock.table.read.fallback import Fallback
from penstock.table.read.plan import KeptLevels, plan_state
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from penstock.table.schema.numbered_files import MAIN_BRANCH
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema


def audit_log(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return the merged rows with the row kind of each."""
    return _rows(store, snapshot, kinds=True)


def binlog(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return the rows of the audit log with each value in a list.

    Streaming reads put both sides of an update in one list.
    """
    rows = audit_log(store, snapshot)
    columns = [rows.column(0)]
    for column in rows.columns[1:]:
        values = column.combine_chunks()
        # Each value is a list of one: batch reads have no pairs of updates.
        offsets = pa.array(range(len(values) + 1), pa.int32())
        columns.append(pa.chunked_array([pa.ListArray.from_arrays(offsets, values)]))
    return pa.Table.from_arrays(columns, names=[ROWKIND, *rows.column_names[1:]])


def read_optimized(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return the rows of the last full compaction of each bucket, read without merging.

    After the number of levels was raised, Java shows them after the next full compaction only.
    """
    return _rows(store, snapshot, top_only=True)


def row_tracking(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return the rows with their ids and versions, in a table with row-tracking.enabled."""
    schema = _schema(store, snapshot)
    if not is_tracked(schema):
        raise ConfigError(
            "the rows of the table have no ids",
            table=f"{store.name}$row_tracking",
            hint=f"tables that are created with {ROW_TRACKING_ENABLED.key} = true have them",
        )
    columns = arrow_schema((*schema.fields, *TRACKED))
    reader = SplitReader(store, Layout.of(schema), schema.fields)
    batches = (
        batch.select(columns.names)
        for split in _splits(store, schema, snapshot, top_only=False)
        for batch in reader.read_tracked(split)
    )
    return pa.Table.from_batches(batches, columns)


def _rows(store: TableStore, snapshot: Snapshot | None, *, kinds: bool = False, top_only: bool = False) -> pa.Table:
    schema = _schema(store, snapshot)
    reader = SplitReader(store, Layout.of(schema), schema.fields, kinds=kinds)
    splits = _splits(store, schema, snapshot, top_only=top_only)
    return pa.Table.from_batches((batch for split in splits for batch in reader.read(split)), reader.schema)


def _schema(store: TableStore, snapshot: Snapshot | None) -> TableSchema:
    """Return the columns of a snapshot; for the newest one these are the table's, with columns added since."""
    return store.schema() if is_newest(store, snapshot) or snapshot is None else store.schemas.get(snapshot.schema_id)


def is_newest(store: TableStore, snapshot: Snapshot | None) -> bool:
    return snapshot is None or snapshot.id == store.snapshots.latest_id()


def _splits(store: TableStore, schema: TableSchema, snapshot: Snapshot | None, *, top_only: bool) -> Iterator[Split]:
    """Yield the splits of the table, and of its fallback branch for partitions that the table does not have."""
    yield from _planned(store, Layout.of(schema), snapshot, top_only=top_only)
    travels = not is_newest(store, snapshot)
    fallback = Fallback.of(store, store.schema().options, snapshot, travels=travels)
    if fallback is None:
        return
    branch = fallback.store.paths.branch or MAIN_BRANCH
    for split in _planned(fallback.store, fallback.layout({}), fallback.snapshot, top_only=top_only):
        if split.partition not in fallback.hidden:
            yield replace(split, branch=branch, schema_id=fallback.schema.id)


def _planned(store: TableStore, layout: Layout, snapshot: Snapshot | None, *, top_only: bool) -> tuple[Split, ...]:
    # The files of append tables are all on level 0 and need no merge.
    kept: KeptLevels | None = "fully-compacted" if top_only and layout.has_keys else None
    return tuple(plan_state(store, layout, snapshot, keep_levels=kept).splits)
