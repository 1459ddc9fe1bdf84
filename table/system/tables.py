"""The system tables by name, as Arrow tables with the same columns as in Java, and those with the table's own rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.row_kinds import ROWKIND
from penstock.table.buckets.layout import Layout
from penstock.table.meta.store import TableStore
from penstock.table.options.compaction import NUM_LEVELS, NUM_SORTED_RUN_COMPACTION_TRIGGER
from penstock.table.read.plan import plan_state
from penstock.table.read.split_reader import SplitReader
from penstock.table.system import contents, description


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


_TABLES: dict[str, Callable[[TableStore], pa.Table]] = {
    "snapshots": description.snapshots,
    "schemas": description.schemas,
    "options": description.options,
    "tags": description.tags,
    "branches": description.branches,
    "consumers": description.consumers,
    "statistics": description.statistics,
    "aggregation_fields": description.aggregation_fields,
    "files": contents.files,
    "manifests": contents.manifests,
    "partitions": contents.partitions,
    "buckets": contents.buckets,
    "table_indexes": contents.table_indexes,
    "audit_log": audit_log,
    "binlog": binlog,
    "ro": read_optimized,
    "read_optimized": read_optimized,
}
NAMES = tuple(sorted(_TABLES))


def check_name(name: str, table: str) -> None:
    """Raise ConfigError for an unknown system table, with the nearest name as hint."""
    if name.lower() not in _TABLES:
        raise ConfigError(
            f"there is no system table {name!r}",
            table=table,
            hint=did_you_mean(name.lower(), NAMES, f"choices are {', '.join(NAMES)}"),
        )


def system_table(store: TableStore, name: str) -> pa.Table:
    """Return the system table of that name; names are not case sensitive."""
    check_name(name, store.name)
    return _TABLES[name.lower()](store)
