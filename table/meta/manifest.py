"""Encoding and decoding of manifests, manifest lists and index manifests.

The statistics of a manifest's partitions allow readers to skip it as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.table.meta.container import read_records, write_records
from penstock.table.meta.data_file import EMPTY_STATS, ColumnStats, DataFile
from penstock.table.meta.entries import IndexEntry, ManifestEntry, ManifestFile
from penstock.table.meta.manifest_decoder import MANIFEST_VERSION
from penstock.table.meta.manifest_encoder import PACKED, encode_entry, encode_line, encode_record, write_encoded
from penstock.table.meta.manifest_format import (
    ENTRY_SCHEMA,
    ENTRY_SHAPE,
    GLOBAL_INDEX_SCHEMA,
    INDEX_SCHEMA,
    INDEX_SHAPE,
    INDEX_VERSION,
    LIST_SCHEMA,
    LIST_SHAPE,
)
from penstock.table.schema.parsed_files import ParsedFiles
from penstock.table.values.binary_row import decode_row, encode_row
from penstock.table.values.internal import order_value
from penstock.table.values.types import DataType

ZSTANDARD = "zstandard"


def read_manifest(data: bytes, where: str, **facts: object) -> list[ManifestEntry]:
    """Return the entries of a manifest in order.

    A TableCorrupt names the file `where` and the facts, such as snapshot= and manifest_list=.
    """
    return list(_MANIFESTS.get(data, where, **facts))


def read_manifest_list(data: bytes, where: str, **facts: object) -> list[ManifestFile]:
    """Return the manifests of a list in order. A TableCorrupt is as in `read_manifest`."""
    return list(_LISTS.get(data, where, **facts))


def _entries(data: bytes, where: str, **facts: object) -> list[ManifestEntry]:
    return read_records(data, ENTRY_SHAPE, where, facts)


def _index_entries(data: bytes, where: str, **facts: object) -> list[IndexEntry]:
    return read_records(data, INDEX_SHAPE, where, facts)


def _manifest_files(data: bytes, where: str, **facts: object) -> list[ManifestFile]:
    return read_records(data, LIST_SHAPE, where, facts)


# Manifests matter less than lists: an open table keeps their entries itself. In Parquet, two entries take 9 KB and are
# read in the time of thirty manifests in Avro. An entry takes about 1.5 KB of memory; in a file of ORC as little as two
# bytes.
_MANIFESTS = ParsedFiles(_entries, files=128, largest=12 << 10, most=200)
_LISTS = ParsedFiles(_manifest_files, files=128, largest=16 << 10, most=500)
_INDEXES = ParsedFiles(_index_entries, files=128, largest=4 << 10, most=200)


def read_index_manifest(data: bytes, where: str, **facts: object) -> list[IndexEntry]:
    """Return the index files of an index manifest in order. A TableCorrupt is as in `read_manifest`."""
    return list(_INDEXES.get(data, where, **facts))


def write_manifest(entries: Sequence[ManifestEntry], codec: str = ZSTANDARD) -> bytes:
    seed = "\n".join(entry.file.name for entry in entries)
    if codec in PACKED:
        return write_encoded(ENTRY_SCHEMA, map(encode_entry, entries), codec, seed)
    return write_records(ENTRY_SCHEMA, map(_entry_record, entries), codec, seed)


def write_manifest_list(files: Sequence[ManifestFile], codec: str = ZSTANDARD) -> bytes:
    seed = "\n".join(file.name for file in files)
    if codec in PACKED:
        return write_encoded(LIST_SCHEMA, map(encode_line, files), codec, seed)
    return write_records(LIST_SCHEMA, map(_list_record, files), codec, seed)


def write_index_manifest(entries: Sequence[IndexEntry], codec: str = ZSTANDARD) -> bytes:
    # The field of later releases is written only where it is needed, so that other tables have the schema of Java
    # 1.3.
    schema = GLOBAL_INDEX_SCHEMA if any(entry.unknown for entry in entries) else INDEX_SCHEMA
    seed = "\n".join(entry.name for entry in entries)
    if codec in PACKED:
        return write_encoded(schema, (encode_record(schema, _index_record(entry)) for entry in entries), codec, seed)
    return write_records(schema, map(_index_record, entries), codec, seed)


def _stats_record(stats: ColumnStats) -> dict[str, Any]:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def _entry_record(entry: ManifestEntry) -> dict[str, Any]:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": _file_record(entry.file),
    }


def _file_record(file: DataFile) -> dict[str, Any]:
    return {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_record(file.key_stats),
        "_VALUE_STATS": _stats_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_millis,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_index,
        "_FILE_SOURCE": None if file.source is None else int(file.source),
        "_VALUE_STATS_COLS": None if file.value_stats_cols is None else list(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": None if file.write_cols is None else list(file.write_cols),
    }


def _list_record(file: ManifestFile) -> dict[str, Any]:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size,
        "_NUM_ADDED_FILES": file.added_files,
        "_NUM_DELETED_FILES": file.deleted_files,
        "_PARTITION_STATS": _stats_record(file.partition_stats),
        "_SCHEMA_ID": file.schema_id,
        "_MIN_BUCKET": file.min_bucket,
        "_MAX_BUCKET": file.max_bucket,
        "_MIN_LEVEL": file.min_level,
        "_MAX_LEVEL": file.max_level,
    }


def _index_record(entry: IndexEntry) -> dict[str, Any]:
    ranges = entry.vector_ranges
    return {
        "_VERSION": INDEX_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.name,
        "_FILE_SIZE": entry.size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if ranges is None
        else [
            {"f0": range_.data_file, "f1": range_.offset, "f2": range_.length, "_CARDINALITY": range_.cardinality}
            for range_ in ranges
        ],
        "_EXTERNAL_PATH": entry.external_path,
        **entry.unknown,
    }


def partition_stats(partitions: Iterable[bytes], types: Sequence[DataType]) -> ColumnStats:
    """Return the statistics of the entries' partitions, one per entry.

    The nulls of a partition are counted once per entry that has the partition.
    """
    if not types:
        return EMPTY_STATS
    # Many entries share few partitions, and each partition is decoded once.
    counted = Counter(partitions)
    rows = [decode_row(partition, types) for partition in counted]
    least: list[object] = []
    greatest: list[object] = []
    nulls = []
    for place, type_ in enumerate(types):
        values = sorted((row[place] for row in rows if row[place] is not None), key=lambda v: order_value(v, type_))
        least.append(values[0] if values else None)
        greatest.append(values[-1] if values else None)
        nulls.append(sum(times for row, times in zip(rows, counted.values(), strict=True) if row[place] is None))
    return ColumnStats(encode_row(least, types), encode_row(greatest, types), tuple(nulls))


def may_contain(stats: ColumnStats, partitions: Iterable[bytes], types: Sequence[DataType]) -> bool:
    """Return whether any of the partitions is within the statistics; True if the statistics are incomplete."""
    if not types or len(stats.null_counts) != len(types):
        return True
    least, greatest = decode_row(stats.min_values, types), decode_row(stats.max_values, types)

    def within(place: int, value: object) -> bool:
        if value is None:
            return stats.null_counts[place] != 0
        # Without a minimum, all values of the column are null.
        if least[place] is None:
            return False
        low, high = order_value(least[place], types[place]), order_value(greatest[place], types[place])
        return low <= order_value(value, types[place]) <= high

    return any(
        all(within(place, value) for place, value in enumerate(decode_row(partition, types)))
        for partition in partitions
    )
