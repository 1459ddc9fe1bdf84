"""Statistics of manifests, partitions and files, expressed in the columns of the schema that is read."""

from __future__ import annotations

from penstock.table.buckets.layout import Layout
from penstock.table.files.statistics import safe_bounds
from penstock.table.meta.data_file import ColumnStats, DataFile
from penstock.table.meta.store import TableStore
from penstock.table.read.pruning import KnownBounds
from penstock.table.values.binary_row import decode_row


def partition_facts(layout: Layout, partition: bytes | ColumnStats, rows: int) -> list[KnownBounds]:
    """Return the bounds of the partition columns.

    `partition` is one partition (bytes), or the statistics of all partitions of a manifest.
    """
    fields, types = layout.partition_fields, layout.partition_types
    if isinstance(partition, bytes):
        values = decode_row(partition, types)
        return [
            KnownBounds(field, value, value, rows if value is None else 0, rows)
            for field, value in zip(fields, values, strict=True)
        ]
    least, greatest = decode_row(partition.min_values, types), decode_row(partition.max_values, types)
    nulls = partition.null_counts or (None,) * len(fields)
    return [
        KnownBounds(field, low, high, count, rows)
        for field, low, high, count in zip(fields, least, greatest, nulls, strict=True)
    ]


def key_facts(layout: Layout, file: DataFile) -> list[KnownBounds]:
    """Return the bounds of the key columns of a file."""
    least, greatest = decode_row(file.min_key, layout.key_types), decode_row(file.max_key, layout.key_types)
    if len(layout.key_fields) == 1:
        return [KnownBounds(layout.key_fields[0], least[0], greatest[0], 0, file.row_count)]
    # Only the first column of a composite key is bounded by the first and last key; the rest by statistics.
    types = layout.key_types
    stats = file.key_stats
    if not stats.null_counts:
        return [KnownBounds(layout.key_fields[0], least[0], greatest[0], 0, file.row_count)]
    lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    return [
        KnownBounds(field, *safe_bounds(low, high, field.type, file.format), nulls, file.row_count)
        for field, low, high, nulls in zip(layout.key_fields, lows, highs, stats.null_counts, strict=True)
    ]


def value_facts(store: TableStore, layout: Layout, file: DataFile) -> list[KnownBounds]:
    """Return the bounds of the value columns.

    Columns whose type changed since the file was written are left out: a cast may reorder values.
    """
    written = store.schemas.get(file.schema_id)
    by_name = {field.name: field for field in written.fields}
    names = file.value_stats_cols if file.value_stats_cols is not None else written.names
    if not names or not file.value_stats.null_counts:
        return []
    columns = [by_name[name] for name in names]
    types = [column.type for column in columns]
    lows = decode_row(file.value_stats.min_values, types)
    highs = decode_row(file.value_stats.max_values, types)
    now = {field.id: field for field in layout.schema.fields}
    return [
        KnownBounds(now[column.id], *safe_bounds(low, high, column.type, file.format), nulls, file.row_count)
        for column, low, high, nulls in zip(columns, lows, highs, file.value_stats.null_counts, strict=True)
        if column.id in now and _same_order(now[column.id].type, column.type)
    ]


def _same_order(left: object, right: object) -> bool:
    return type(left) is type(right) and getattr(left, "root", None) == getattr(right, "root", None)
