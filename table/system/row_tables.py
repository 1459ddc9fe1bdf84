"""System tables with the table's own rows.

They show them with row kinds, as pairs of before and after, or only as of the last full compaction.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.row_kinds import ROWKIND
from penstock.table.buckets.layout import Layout
from penstock.table.meta.store import TableStore
from penstock.table.options.compaction import NUM_LEVELS, NUM_SORTED_RUN_COMPACTION_TRIGGER
from penstock.table.read.plan import plan_state
from penstock.table.read.split_reader import SplitReader


def audit_log(store: TableStore) -> pa.Table:
    """Return the merged rows with the row kind of each."""
    schema = store.schema()
    layout = Layout.of(schema)
    reader = SplitReader(store, layout, schema.fields, kinds=True)
    plan = plan_state(store, layout, store.snapshots.latest())
    return pa.Table.from_batches((batch for split in plan.splits for batch in reader.read(split)), reader.schema)


def binlog(store: TableStore) -> pa.Table:
    """Return the rows of the audit log with each value in a list.

    Streaming reads put both sides of an update in one list.
    """
    rows = audit_log(store)
    columns = [rows.column(0)]
    for column in rows.columns[1:]:
        values = column.combine_chunks()
        offsets = pa.array(range(len(values) + 1), pa.int32())
        columns.append(pa.chunked_array([pa.ListArray.from_arrays(offsets, values)]))
    return pa.Table.from_arrays(columns, names=[ROWKIND, *rows.column_names[1:]])


def read_optimized(store: TableStore) -> pa.Table:
    """Return the rows of the files on the highest level only, read without merging.

    They are the state of the last full compaction.
    """
    schema = store.schema()
    layout = Layout.of(schema)
    options = schema.typed
    trigger = options[NUM_SORTED_RUN_COMPACTION_TRIGGER]
    top = options.get(NUM_LEVELS, trigger + 1) - 1
    reader = SplitReader(store, layout, schema.fields)
    keep = (lambda level: level == top) if layout.has_keys else None
    plan = plan_state(store, layout, store.snapshots.latest(), keep_level=keep)
    return pa.Table.from_batches((batch for split in plan.splits for batch in reader.read(split)), reader.schema)
