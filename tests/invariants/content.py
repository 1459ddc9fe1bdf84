"""Invariants of the content of data files, each read and compared with its metadata."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.buckets.layout import BucketMode
from penstock.table.buckets.route import key_hashes
from penstock.table.dynamic_buckets.assigner import decode_hashes
from penstock.table.files.file_reader import FileReader
from penstock.table.meta.data_file import ColumnStats, DataFile
from penstock.table.meta.entries import HASH_INDEX, Bucket, ManifestEntry
from penstock.table.meta.live import index_entries
from penstock.table.meta.paths import POSTPONE_BUCKET
from penstock.table.values.binary_row import decode_row
from penstock.table.values.internal import internal_values
from penstock.table.values.types import AtomicType, Field
from tests.invariants.view import View

Rule = Callable[[View], Iterator[str]]
Key = tuple[object, ...]
RETRACTS = (1, 3)


def rows_of(view: View, entry: ManifestEntry) -> pa.Table:
    """Return all rows of a file, with the schema it was written with."""
    wanted = view.store.schemas.get(entry.file.schema_id).fields
    keyed = view.layout.has_keys
    path = view.path_of(entry)
    reader = FileReader(view.store.storage, lambda _: path, view.store.schemas.get, wanted, keyed, keyed)
    return view.reads.of_file(
        path,
        (entry.file.format, entry.file.size, wanted),
        lambda: pa.Table.from_batches(reader.read(entry.file), reader.schema),
    )


def column_of(rows: pa.Table, field: Field) -> list[Any]:
    return internal_values(rows.column(field.name).combine_chunks(), field.type)


def keys_of(view: View, rows: pa.Table) -> list[Key]:
    fields = view.layout.key_fields
    return list(zip(*(column_of(rows, field) for field in fields), strict=True)) if fields else []


def metadata_is_that_of_the_files(view: View) -> Iterator[str]:
    """I10: counts, keys and statistics in the metadata match the files."""
    for entry in view.live:
        rows, file = rows_of(view, entry), entry.file
        if rows.num_rows != file.row_count:
            yield f"I10 {file.name} is said to have {file.row_count} rows, it has {rows.num_rows}"
        if view.layout.has_keys and entry.bucket != POSTPONE_BUCKET:
            yield from key_metadata(view, rows, file)
        yield from column_statistics(view, rows, file)


def key_metadata(view: View, rows: pa.Table, file: DataFile) -> Iterator[str]:
    kinds, keys = rows.column("_VALUE_KIND"), keys_of(view, rows)
    recorded = {
        "deletes": file.delete_row_count,
        "first key": decode_row(file.min_key, view.layout.key_types),
        "last key": decode_row(file.max_key, view.layout.key_types),
        "least sequence": file.min_sequence,
        "greatest sequence": file.max_sequence,
    }
    sequences = pc.min_max(rows.column("_SEQUENCE_NUMBER")).as_py()
    held = {
        "deletes": pc.sum(pc.is_in(kinds, pa.array(RETRACTS, kinds.type))).as_py(),
        "first key": keys[0],
        "last key": keys[-1],
        "least sequence": sequences["min"],
        "greatest sequence": sequences["max"],
    }
    for name, value in held.items():
        if recorded[name] is not None and recorded[name] != value:
            yield f"I10 {file.name}: {name} is {value}, the metadata says {recorded[name]}"
    if any(comparable(after) < comparable(before) for before, after in pairwise(keys)):
        yield f"I10 {file.name} is not in the order of its keys"


def column_statistics(view: View, rows: pa.Table, file: DataFile) -> Iterator[str]:
    schema = view.store.schemas.get(file.schema_id)
    fields = schema.fields if file.value_stats_cols is None else schema.select(file.value_stats_cols)
    yield from bounds_hold(file, file.value_stats, fields, rows, exact=False)
    if view.layout.has_keys:
        keys = schema.select(schema.trimmed_primary_keys)
        # Java truncates statistics of keys only if the file has no footer to read them from.
        yield from bounds_hold(file, file.key_stats, keys, rows, exact=file.format != "avro")


def bounds_hold(
    file: DataFile, stats: ColumnStats, fields: Sequence[Field], rows: pa.Table, *, exact: bool
) -> Iterator[str]:
    """Check statistics.

    They may be truncated, so they must enclose the values; for keys they must equal the extreme values.
    """
    if not stats.null_counts:
        return
    types = [field.type for field in fields]
    lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    for field, low, high, nulls in zip(fields, lows, highs, stats.null_counts, strict=True):
        column, padded = rows.column(field.name), getattr(field.type, "root", "") == "CHAR"
        if nulls is not None and nulls != column.null_count:
            yield f"I10 {file.name}: {field.name} has {column.null_count} nulls, statistics say {nulls}"
        held = [value for value in column_of(rows, field) if value is not None and is_covered(file, field, value)]
        values = (
            sorted(ordered(value, padded) for value in held) if low is not None and is_covered(file, field, low) else []
        )
        if not values:
            continue
        least, greatest = ordered(low, padded), ordered(high, padded)
        if least > values[0] or (high is not None and greatest < values[-1]):
            yield f"I10 {file.name}: {field.name} lies in {values[0]}..{values[-1]}, statistics say {low}..{high}"
        if exact and (least, greatest) != (values[0], values[-1]):
            yield f"I10 {file.name}: key {field.name} is {values[0]}..{values[-1]}, statistics say {low}..{high}"


GREGORIAN_SECONDS = -12_219_292_800


def is_covered(file: DataFile, field: Field, value: Any) -> bool:
    """Return whether statistics cover the value.

    Java's ORC statistics exclude NaN and count days before 1582 differently.
    """
    if file.format != "orc":
        return True
    if isinstance(value, float):
        return not math.isnan(value)
    moment = isinstance(field.type, AtomicType) and field.type.root.startswith("TIMESTAMP")
    return not moment or value >= GREGORIAN_SECONDS * 10**9


def ordered(value: Any, padded: bool = False) -> Any:
    """Return a value that sorts like the table: floats with NaN last and -0.0 first, a CHAR without trailing blanks."""
    if isinstance(value, float):
        return (value != value, value if value == value else 0.0, str(value) != "-0.0")
    return value.rstrip(" ") if padded and value is not None else value


def comparable(key: Key) -> tuple[Any, ...]:
    return tuple((value is not None, ordered(value) if value is not None else 0) for value in key)


def runs_do_not_overlap(view: View) -> Iterator[str]:
    """I8: the files of a level above 0 do not overlap."""
    runs: dict[tuple[Bucket, int], list[tuple[Any, Any, str]]] = defaultdict(list)
    for entry in view.live:
        if entry.file.level > 0:
            bounds = [
                comparable(decode_row(key, view.layout.key_types)) for key in (entry.file.min_key, entry.file.max_key)
            ]
            runs[((entry.partition, entry.bucket), entry.file.level)].append((*bounds, entry.file.name))
    for (_, level), files in runs.items():
        for (_, end, left), (start, _, right) in pairwise(sorted(files)):
            if start <= end:
                yield f"I8 {left} and {right} overlap in level {level}"


def keys_live_in_one_place(view: View) -> Iterator[str]:
    """I7: a key is in one bucket. I9: no two files share a sequence number for a key."""
    if not view.layout.has_keys:
        return
    # With a sequence field, a compaction that looks keys up rewrites the surviving row with its old sequence number.
    numbered = "sequence.field" not in view.layout.schema.options
    newest: dict[tuple[Bucket, Key], tuple[int, int]] = {}
    numbers: dict[tuple[Bucket, Key, int], str] = {}
    for entry in view.live:
        if entry.bucket == POSTPONE_BUCKET:
            continue
        rows, bucket = rows_of(view, entry), (entry.partition, entry.bucket)
        columns = (rows.column(name).to_pylist() for name in ("_SEQUENCE_NUMBER", "_VALUE_KIND"))
        for key, number, kind in zip(keys_of(view, rows), *columns, strict=True):
            newest[bucket, key] = max(newest.get((bucket, key), (-1, 0)), (number, kind))
            other = numbers.setdefault((bucket, key, number), entry.file.name)
            if numbered and other != entry.file.name:
                yield f"I9 {other} and {entry.file.name} both hold key {key} with sequence number {number}"
    yield from keys_in_several_buckets(view, newest)


def keys_in_several_buckets(view: View, newest: Mapping[tuple[Bucket, Key], tuple[int, int]]) -> Iterator[str]:
    # The index of cross-partition keys forgets keys that were deleted or left the partition.
    forgets = view.layout.mode is BucketMode.CROSS_PARTITION
    places: dict[tuple[bytes, Key], set[int]] = defaultdict(set)
    for ((partition, bucket), key), (_, kind) in newest.items():
        if kind not in RETRACTS or not forgets:
            places[partition, key].add(bucket)
    for (_, key), buckets in places.items():
        if len(buckets) > 1:
            yield f"I7 key {key} lives in buckets {sorted(buckets)}"


def indexes_know_the_bucket_of_each_key(view: View) -> Iterator[str]:
    """I7, for dynamic buckets: the index has the bucket of each key.

    A key that the index lacks, or has twice, would get a second bucket at its next write.
    """
    if view.layout.mode is not BucketMode.DYNAMIC or view.latest is None:
        return
    known: dict[bytes, dict[int, int]] = defaultdict(dict)
    for index in index_entries(view.store, view.latest):
        if index.index_type == HASH_INDEX:
            path = view.store.paths.index_file(index.name, view.layout.partition_dir(index.partition), index.bucket)
            for number in decode_hashes(view.store.storage.read(path), index.row_count, path).tolist():
                if known[index.partition].setdefault(number, index.bucket) != index.bucket:
                    yield f"I7 hash {number} is in the index of bucket {index.bucket} and of another one"
    for entry in view.live:
        for batch in rows_of(view, entry).to_batches():
            hashes = key_hashes(view.layout, batch, view.layout.schema.trimmed_primary_keys)
            lost = [number for number in hashes.tolist() if known[entry.partition].get(number) != entry.bucket]
            if lost:
                yield f"I7 the index of bucket {entry.bucket} lacks {len(lost)} keys of {entry.file.name}"


RULES: tuple[Rule, ...] = (
    metadata_is_that_of_the_files,
    runs_do_not_overlap,
    keys_live_in_one_place,
    indexes_know_the_bucket_of_each_key,
)
