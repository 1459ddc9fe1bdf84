"""Descriptions of data files and index files from our metadata, in the form of the Java oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.table.meta.data_file import ColumnStats
from penstock.table.meta.entries import IndexEntry, ManifestEntry
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.values.binary_row import decode_row
from penstock.table.values.internal import from_internal
from penstock.table.values.types import Field, type_json, with_nullability
from tests.golden.relations import encode


def described_row(row: bytes, fields: Sequence[Field]) -> list[Any]:
    types = [with_nullability(field.type, nullable=True) for field in fields]
    values = decode_row(row, types)
    return [encode(from_internal([value], kind), type_json(kind))[0] for value, kind in zip(values, types, strict=True)]


def described_stats(stats: ColumnStats, fields: Sequence[Field]) -> dict[str, list[Any]]:
    if not stats.null_counts:
        return {field.name: [None, None, None] for field in fields}
    low, high = described_row(stats.min_values, fields), described_row(stats.max_values, fields)
    parts = zip(low, high, stats.null_counts, strict=True)
    return {field.name: list(part) for field, part in zip(fields, parts, strict=True)}


def described_files(store: TableStore, snapshot: Snapshot | None) -> list[dict[str, Any]]:
    return [described_file(store, entry) for entry in live_entries(store, snapshot)] if snapshot else []


def described_file(store: TableStore, entry: ManifestEntry) -> dict[str, Any]:
    file, schema = entry.file, store.schemas.get(entry.file.schema_id)
    partition_fields = schema.select(schema.partition_keys)
    description: dict[str, Any] = {
        "partition": described_partition(entry.partition, partition_fields),
        "bucket": entry.bucket,
        "file": file.name,
        "level": file.level,
        "rows": file.row_count,
        "deletes": file.delete_row_count,
        "bytes": file.size,
        "schema": file.schema_id,
        "min_seq": file.min_sequence,
        "max_seq": file.max_sequence,
    }
    columns = schema.fields
    if file.value_stats_cols is not None:
        description["value_stats_cols"] = list(file.value_stats_cols)
        columns = schema.select(file.value_stats_cols)
    optional = {
        "write_cols": None if file.write_cols is None else list(file.write_cols),
        "first_row_id": file.first_row_id,
        "embedded_index_bytes": None if file.embedded_index is None else len(file.embedded_index),
    }
    description |= {name: value for name, value in optional.items() if value is not None}
    if schema.primary_keys and int.from_bytes(file.min_key[:4], "big"):
        keys = schema.select(schema.trimmed_primary_keys)
        description["min_key"], description["max_key"] = (
            described_row(file.min_key, keys),
            described_row(file.max_key, keys),
        )
        description["key_stats"] = described_stats(file.key_stats, keys)
    description["value_stats"] = described_stats(file.value_stats, columns)
    return description


def described_partition(partition: bytes, fields: Sequence[Field]) -> dict[str, Any]:
    return dict(zip((field.name for field in fields), described_row(partition, fields), strict=True))


def described_indexes(store: TableStore, snapshot: Snapshot | None) -> list[dict[str, Any]]:
    return [described_index(store, entry) for entry in index_entries(store, snapshot)] if snapshot else []


def described_index(store: TableStore, entry: IndexEntry) -> dict[str, Any]:
    schema = store.schema()
    description: dict[str, Any] = {
        "partition": described_partition(entry.partition, schema.select(schema.partition_keys)),
        "bucket": entry.bucket,
        "type": entry.index_type,
        "file": entry.name,
        "rows": entry.row_count,
        "bytes": entry.size,
    }
    if entry.vector_ranges is not None:
        description["deletion_vectors"] = [
            [r.data_file, r.offset, r.length, r.cardinality] for r in entry.vector_ranges
        ]
    return description
