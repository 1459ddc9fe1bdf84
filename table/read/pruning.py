"""Pruning of files, partitions and buckets by their statistics.

Arrow simplifies an expression by the known facts about a dataset fragment. Here a fragment represents a file, a
partition or a bucket, and is never opened. Statistics are first expressed in the columns of the schema that is read.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from penstock.table.buckets.layout import Layout
from penstock.table.files.value_bounds import safe_bounds
from penstock.table.meta.data_file import ColumnStats, DataFile
from penstock.table.meta.store import TableStore
from penstock.table.read.splits import Split
from penstock.table.values.arrow_types import arrow_schema, to_arrow
from penstock.table.values.binary_row import decode_row
from penstock.table.values.types import AtomicType, DataType, Field

T = TypeVar("T")
# Arrow draws wrong conclusions from these: a column without nulls may contain NaN, and NaN is in no order.
_UNPROVABLE = re.compile(r"nan_is_null=true|(?<![\w.])nan\b")


@dataclass(frozen=True, slots=True)
class KnownBounds:
    """The known bounds of one column of a file, partition or manifest, in internal values.

    `nulls` is None when the number of nulls is unknown.
    """

    field: Field
    least: object
    greatest: object
    nulls: int | None
    rows: int


def possible(
    items: Sequence[T], facts: Sequence[Sequence[KnownBounds]], schema: pa.Schema, where: pc.Expression
) -> list[T]:
    """Return the items in which some row may match `where`; `facts` has one entry per item, in the same order."""
    import pyarrow.dataset as ds  # imports pandas, which costs as much as a small scan

    text = str(where)
    if _UNPROVABLE.search(text):
        return list(items)
    form = ds.ParquetFileFormat()
    files = fs.LocalFileSystem()
    fragments = []
    for place, known in enumerate(facts):
        # Bounds of columns that the filter does not name could not decide anything, and each costs a scalar per
        # file.
        guarantees = [guarantee for fact in known if fact.field.name in text for guarantee in _guarantees(fact)]
        if guarantees:
            guarantee = functools.reduce(operator.and_, guarantees)
            fragments.append(form.make_fragment(str(place), filesystem=files, partition_expression=guarantee))
        else:
            fragments.append(form.make_fragment(str(place), filesystem=files))
    dataset = ds.FileSystemDataset(fragments, schema, form, files)
    try:
        return [items[int(fragment.path)] for fragment in dataset.get_fragments(where)]
    except pa.ArrowException:  # the filter compares values Arrow cannot order, so nothing is ruled out
        return list(items)


def _guarantees(known: KnownBounds) -> list[pc.Expression]:
    column = pc.field(known.field.name)
    if known.nulls is not None and known.nulls == known.rows:
        return [column.is_null()]
    ends = known.least, known.greatest
    # NaN is the greatest value of a key or a partition, but no comparison with it is true.
    if not isinstance(known.field.type, AtomicType) or any(end is None or end != end for end in ends):  # noqa: PLR0124
        return [column.is_valid()] if known.nulls == 0 else []
    least, greatest = (arrow_scalar(value, known.field.type) for value in (known.least, known.greatest))
    bounds = [column >= least, column <= greatest]
    # Arrow simplifies a nullable bound only when each comparison has its own `OR column IS NULL`.
    return bounds if known.nulls == 0 else [bound | column.is_null() for bound in bounds]


def arrow_scalar(value: object, type_: AtomicType) -> pa.Scalar:
    """Return an internal value as the Arrow scalar that a filter compares with."""
    target = to_arrow(type_)
    if value is None:
        return pa.scalar(None, target)
    match type_.root:
        case "DATE" | "TIME":
            return pa.scalar(value, pa.int32()).cast(target)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            # Internal values of timestamps are nanoseconds.
            per_unit = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}[target.unit]
            return pa.scalar(int(str(value)) // per_unit, pa.int64()).cast(target)
        case "DECIMAL":
            return pa.scalar(Decimal(str(value)), target)
    return pa.scalar(value, target)


def partition_facts(layout: Layout, partition: bytes | ColumnStats, rows: int) -> list[KnownBounds]:
    """Return the bounds of the partition columns.

    `partition` is one partition (bytes), or the statistics of all partitions of a manifest.
    """
    fields, types = layout.partition_fields, layout.partition_types
    if isinstance(partition, bytes):
        values = decode_row(partition, types)
        return [
            # All rows of a partition have its values.
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
        # First and last key of a file are never truncated, unlike statistics. Key columns cannot be null.
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

    Columns whose type changed since the file was written are left out, unless it only became wider: a cast may reorder
    values, round them, cut them off or make them null.
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
        if column.id in now and _keeps_values(column.type, now[column.id].type)
    ]


def _keeps_values(old: DataType, new: DataType) -> bool:
    """Return whether all values of a type are the same values in another."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return type(old) is type(new)
    digits = new.precision - new.scale >= old.precision - old.scale and new.scale >= old.scale
    return old.root == new.root and digits and new.length >= old.length


def possible_changes(
    store: TableStore, layout: Layout, splits: Sequence[Split], where: pc.Expression | None
) -> list[Split]:
    """Return the splits of changed rows without the files in which no row can match `where`.

    Of a table with keys only its partition and its key decide: the old and the new row of an update have the same, and
    both must be read even if only one of them matches.
    """
    if where is None:
        return list(splits)
    files = [(split, file) for split in splits for file in split.files]
    facts = [
        [
            *partition_facts(layout, split.partition, 1),
            *(key_facts(layout, file) if layout.has_keys else value_facts(store, layout, file)),
        ]
        for split, file in files
    ]
    kept = {file.name for _, file in possible(files, facts, arrow_schema(layout.schema.fields), where)}
    left = (replace(split, files=tuple(file for file in split.files if file.name in kept)) for split in splits)
    return [split for split in left if split.files]
