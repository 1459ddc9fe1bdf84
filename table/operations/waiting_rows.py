"""Rows that wait for a compaction to be read, and that a statement which changes rows would therefore leave out."""

from __future__ import annotations

import pyarrow.compute as pc

from penstock.table.buckets.layout import Layout
from penstock.table.meta.store import TableStore
from penstock.table.operations.compact import compact_table
from penstock.table.operations.executor import Executor
from penstock.table.operations.partition_specs import spec_of
from penstock.table.read.plan import waiting_partitions


def compact_waiting_rows(
    store: TableStore, where: pc.Expression | None = None, executor: Executor | None = None
) -> None:
    """Compact the partitions in which rows that match `where` may wait for it, also if writers compact nothing.

    Without this, the statement would leave out such rows, and could not replace older rows of the same bucket.
    """
    snapshot, layout = store.snapshots.latest(), Layout.of(store.schema())
    if snapshot is None:
        return
    partitioned = layout.schema.partition_keys
    if not set(partitioned) <= set(layout.schema.primary_keys):
        where = None  # a changed row may move to another partition
    waiting = waiting_partitions(store, layout, snapshot, where)
    if waiting:
        chosen = [spec_of(layout, partition) for partition in waiting] if partitioned else None
        compact_table(store, full=False, partitions=chosen, executor=executor)
