"""System tables with the contents of a snapshot: files, manifests, partitions, buckets, indexes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.table.buckets.layout import Layout
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.live import all_manifests, index_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.read.fallback import readable_entries, readable_parts
from penstock.table.system.description import TIMESTAMP, table_of
from penstock.table.system.own_rows import is_newest
from penstock.table.values.binary_row import decode_row
from penstock.table.values.partition_text import row_text, value_text
from penstock.table.values.types import Field

_FIRST_ROW_ID = "first_row_id"


def _row_text(row: bytes, fields: Sequence[Field], brackets: str = "{}") -> str:
    types = [field.type for field in fields]
    return row_text(decode_row(row, types), types, brackets)


def files(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return `files`: the data files that a read finds, also in a fallback branch."""
    return _data_files(store, snapshot).drop_columns(_FIRST_ROW_ID)


def file_key_ranges(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return `file_key_ranges`: the least and the greatest key of each data file, and its first row id."""
    names = ("partition", "bucket", "file_path", "file_format", "schema_id", "level", "record_count")
    return _data_files(store, snapshot).select([*names, "file_size_in_bytes", "min_key", "max_key", _FIRST_ROW_ID])


def _data_files(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    columns = [
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("file_path", pa.string()),
        ("file_format", pa.string()),
        ("schema_id", pa.int64()),
        ("level", pa.int32()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
        ("null_value_counts", pa.string()),
        ("min_value_stats", pa.string()),
        ("max_value_stats", pa.string()),
        ("min_sequence_number", pa.int64()),
        ("max_sequence_number", pa.int64()),
        ("creation_time", TIMESTAMP),
        ("deleteRowCount", pa.int64()),
        ("file_source", pa.string()),
        (_FIRST_ROW_ID, pa.int64()),
    ]
    parts = [
        (branch, Layout.of(branch.schema()), entries)
        for branch, entries in readable_parts(store, snapshot, travels=not is_newest(store, snapshot))
    ]
    rows = (_file_row(branch, layout, entry) for branch, layout, entries in parts for entry in entries)
    return table_of(columns, rows)


def _file_row(store: TableStore, layout: Layout, entry: ManifestEntry) -> Sequence[object]:
    file = entry.file
    nulls, lows, highs = _stats_texts(store, file)
    keyed = layout.has_keys
    return (
        _row_text(entry.partition, layout.partition_fields),
        entry.bucket,
        layout.path_of(store.paths, entry.partition, entry.bucket)(file),
        file.format,
        file.schema_id,
        file.level,
        file.row_count,
        file.size,
        _row_text(file.min_key, layout.key_fields, "[]") if keyed else None,
        _row_text(file.max_key, layout.key_fields, "[]") if keyed else None,
        nulls,
        lows,
        highs,
        file.min_sequence,
        file.max_sequence,
        # Already the writer's wall clock, so it is shown unchanged.
        file.creation_millis,
        file.delete_row_count,
        None if file.source is None else ("APPEND", "COMPACT")[file.source],
        file.first_row_id,
    )


def _stats_texts(store: TableStore, file: DataFile) -> tuple[str, str, str]:
    schema = store.schemas.get(file.schema_id)
    stats = file.value_stats
    names = file.value_stats_cols if file.value_stats_cols is not None else schema.names
    if not stats.null_counts:
        return "{}", "{}", "{}"
    fields = schema.select(tuple(names))
    types = [field.type for field in fields]
    lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)

    def shown(values: Sequence[object], text: Callable[[object, Field], str]) -> str:
        parts = (f"{field.name}={text(value, field)}" for value, field in zip(values, fields, strict=True))
        # Java prints the columns sorted by name.
        return "{" + ", ".join(sorted(parts)) + "}"

    def bound(value: object, field: Field) -> str:
        text = value_text(value, field.type)
        return "null" if text is None else text

    return (
        shown(stats.null_counts, lambda count, _: "null" if count is None else str(count)),
        shown(lows, bound),
        shown(highs, bound),
    )


def manifests(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return `manifests`: the manifests of the snapshot."""
    columns = [
        ("file_name", pa.string()),
        ("file_size", pa.int64()),
        ("num_added_files", pa.int64()),
        ("num_deleted_files", pa.int64()),
        ("schema_id", pa.int64()),
        ("min_partition_stats", pa.string()),
        ("max_partition_stats", pa.string()),
    ]
    fields = Layout.of(store.schema()).partition_fields
    rows = (
        (
            manifest.name,
            manifest.size,
            manifest.added_files,
            manifest.deleted_files,
            manifest.schema_id,
            _row_text(manifest.partition_stats.min_values, fields),
            _row_text(manifest.partition_stats.max_values, fields),
        )
        for manifest in (all_manifests(store, snapshot) if snapshot else ())
    )
    return table_of(columns, rows)


@dataclass(slots=True)
class _Sum:
    records: int = 0
    size: int = 0
    files: int = 0
    updated: int = 0

    def add(self, file: DataFile) -> None:
        self.records += file.row_count
        self.size += file.size
        self.files += 1
        self.updated = max(self.updated, file.creation_millis or 0)


_SUMS = [
    ("record_count", pa.int64()),
    ("file_size_in_bytes", pa.int64()),
    ("file_count", pa.int64()),
    ("last_update_time", TIMESTAMP),
]


def _summed(sums: dict[tuple[object, ...], _Sum]) -> list[Sequence[object]]:
    return [(*place, total.records, total.size, total.files, total.updated) for place, total in sums.items()]


def partitions(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return `partitions`: rows, bytes and files per partition, as a read finds them."""
    fields = Layout.of(store.schema()).partition_fields
    sums: dict[tuple[object, ...], _Sum] = {}
    for entry in readable_entries(store, snapshot, travels=not is_newest(store, snapshot)):
        sums.setdefault((_row_text(entry.partition, fields),), _Sum()).add(entry.file)
    return table_of([("partition", pa.string()), *_SUMS], _summed(sums))


def buckets(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return `buckets`: rows, bytes and files per bucket."""
    fields = Layout.of(store.schema()).partition_fields
    sums: dict[tuple[object, ...], _Sum] = {}
    for entry in readable_entries(store, snapshot, travels=not is_newest(store, snapshot)):
        sums.setdefault((_row_text(entry.partition, fields), entry.bucket), _Sum()).add(entry.file)
    return table_of([("partition", pa.string()), ("bucket", pa.int32()), *_SUMS], _summed(sums))


def table_indexes(store: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """Return `table_indexes`: the index files, with deletion vectors by data file."""
    vector = pa.struct([("f0", pa.string()), ("f1", pa.int32()), ("f2", pa.int32()), ("_CARDINALITY", pa.int64())])
    columns = [
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("index_type", pa.string()),
        ("file_name", pa.string()),
        ("file_size", pa.int64()),
        ("row_count", pa.int64()),
        ("dv_ranges", pa.list_(vector)),
    ]
    fields = Layout.of(store.schema()).partition_fields
    rows = (
        (
            _row_text(entry.partition, fields),
            entry.bucket,
            entry.index_type,
            entry.name,
            entry.size,
            entry.row_count,
            None
            if entry.vector_ranges is None
            else [
                {"f0": part.data_file, "f1": part.offset, "f2": part.length, "_CARDINALITY": part.cardinality}
                for part in entry.vector_ranges
            ],
        )
        for entry in (index_entries(store, snapshot) if snapshot else ())
    )
    return table_of(columns, rows)
