"""The reader of Parquet data files, which skips the row groups and pages that conditions exclude."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.table.files.columns import fitting_rows
from penstock.table.files.conditions import Bounds, ColumnCondition, all_may_contain
from penstock.table.files.parquet.few_values import texts_of_few_values
from penstock.table.files.parquet.int96 import decode_moments, has_int96, raw_metadata
from penstock.table.files.parquet.row_ranges import decidable, narrowed_rows
from penstock.table.files.relayout import relayout
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import Field


def leaves(metadata: Any, stored: Sequence[str], names: Collection[str]) -> list[int]:
    """Return the places of the named columns in a row group, of a nested column those of all its members.

    `stored` are the names of all columns of the file.
    """
    if metadata.num_columns == len(stored):
        return [place for place, name in enumerate(stored) if name in names]
    paths = ((place, metadata.schema.column(place).path) for place in range(metadata.num_columns))
    return [place for place, path in paths if not _columns_of(path).isdisjoint(names)]


def _columns_of(path: str) -> set[str]:
    """Return the columns that a path may belong to: their names may contain dots, which separate its members too."""
    parts = path.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts) + 1)}


# Larger compressed row groups are read in pieces: Java writes groups of up to 128 MB.
_BUFFERED_ABOVE = 16 << 20
_PIECE = 1 << 20


def read(
    source: Any,
    fields: Sequence[Field],
    *,
    batch_rows: int,
    conditions: Sequence[ColumnCondition] = (),
    keep_dictionaries: bool = False,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches of the named columns in their in-memory types, each with the number of its first row in the file.

    A column that is not in the file is null. Row groups in which no row satisfies `conditions` (with the file's column
    names) are skipped, and so are the rows before the first and after the last such row of a row group. With
    `keep_dictionaries`, texts of few values may be dictionary arrays. Holds one batch, and the compressed row groups it
    comes from.
    """
    file = pq.ParquetFile(source)
    metadata = file.metadata
    stored = file.schema_arrow.names  # read once: each access converts the schema of the file
    present = set(stored)
    names = [field.name for field in fields if field.name in present]
    places = leaves(metadata, stored, set(names))
    groups = _groups_to_read(metadata, conditions)
    # Arrow reads INT96 as nanoseconds, which overflow outside of 1677 to 2262. Declared as bytes, every year can be
    # read.
    raw = has_int96(metadata, places)
    options = _options(metadata, places, groups)
    public = pa.schema([pa.field(field.name, to_arrow(field.type), field.type.nullable) for field in fields])
    narrow = _narrowing(conditions, public, metadata, stored, names, raw=raw)
    if not narrow and (coded := texts_of_few_values(metadata, fields, (number for _, number in groups))):
        options["read_dictionary"] = coded
    if raw or options:
        # With the metadata as an argument, the footer is not read again.
        file = pq.ParquetFile(source, metadata=raw_metadata(source) if raw else metadata, **options)
    if not narrow:
        for first_row, members in _neighbours(metadata, groups):
            place = first_row
            fitting = fitting_rows(batch_rows, _row_bytes(metadata.row_group(members[0]), places))
            for batch in file.iter_batches(fitting, row_groups=members, columns=names, use_threads=False):
                yield place, _public(batch, public, raw=raw, keep=keep_dictionaries)
                place += batch.num_rows
        return
    for first_row, group in groups:
        fitting = fitting_rows(batch_rows, _row_bytes(metadata.row_group(group), places))
        for place, part in narrowed_rows(file, source, group, names, narrow, public, fitting):
            yield first_row + place, _public(part, public, raw=raw)


def _narrowing(
    conditions: Sequence[ColumnCondition],
    public: pa.Schema,
    metadata: Any,
    stored: list[str],
    names: Sequence[str],
    *,
    raw: bool,
) -> list[ColumnCondition]:
    """Return the conditions by which the first and the last wanted row of a row group are found.

    Which rows are left out depends on the file and the conditions only, and not on the columns that are read. With
    `raw`, columns of INT96 are read as bytes, which cannot be compared.
    """
    return [
        condition
        for condition in decidable(conditions, public)
        if condition.column in names and not (raw and has_int96(metadata, leaves(metadata, stored, {condition.column})))
    ]


def _neighbours(metadata: Any, groups: Sequence[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """Return the row groups as few ranges of groups that follow each other, each with the number of its first row.

    Arrow reads a range quicker than its groups one by one, but holds all of its compressed groups.
    """
    ranges: list[tuple[int, list[int]]] = []
    size = 0
    for first_row, number in groups:
        size += metadata.row_group(number).total_byte_size
        if ranges and ranges[-1][1][-1] + 1 == number and size <= _BUFFERED_ABOVE:
            ranges[-1][1].append(number)
        else:
            ranges.append((first_row, [number]))
            size = metadata.row_group(number).total_byte_size
    return ranges


def _options(metadata: Any, places: Sequence[int], groups: Sequence[tuple[int, int]]) -> dict[str, Any]:
    for _, number in groups:
        group = metadata.row_group(number)
        if group.total_byte_size <= _BUFFERED_ABOVE:
            continue
        if sum(group.column(place).total_compressed_size for place in places) > _BUFFERED_ABOVE:
            return {"buffer_size": _PIECE, "pre_buffer": False}
    return {}


def _row_bytes(group: Any, places: Sequence[int]) -> int:
    """Return the uncompressed size of some columns of a row; dictionary-encoded text needs more in memory."""
    size = sum(group.column(place).total_uncompressed_size for place in places)
    return int(size) // max(int(group.num_rows), 1)


def _groups_to_read(metadata: Any, conditions: Sequence[ColumnCondition]) -> list[tuple[int, int]]:
    """Return (number of the first row, row group) for each row group that may contain a wanted row."""
    wanted = {condition.column for condition in conditions}
    # Paths of nested columns have several steps and match no name, so these columns have no bounds.
    paths = (metadata.schema.column(place).path for place in range(metadata.num_columns if wanted else 0))
    places = {path: place for place, path in enumerate(paths) if path in wanted}
    groups, first_row = [], 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not conditions or all_may_contain(conditions, _bounds(group, places)):
            groups.append((first_row, number))
        first_row += group.num_rows
    return groups


def _bounds(group: Any, places: Mapping[str, int]) -> Mapping[str, Bounds]:
    found = {}
    for name, place in places.items():
        column = group.column(place)
        if column.is_stats_set:
            stats = column.statistics
            low, high = (stats.min, stats.max) if stats.has_min_max else (None, None)
            nulls = stats.null_count if stats.has_null_count else None
            found[name] = Bounds(low, high, nulls, group.num_rows)
    return found


def _public(batch: pa.RecordBatch, schema: pa.Schema, *, raw: bool, keep: bool = False) -> pa.RecordBatch:
    if batch.schema.equals(schema) or not schema:
        return batch.select(schema.names)
    columns = []
    for place, field in enumerate(schema):
        stored = batch.schema.get_field_index(field.name)
        column = pa.nulls(batch.num_rows, field.type) if stored < 0 else batch.column(stored)
        if keep and pa.types.is_dictionary(column.type):
            schema = schema.set(place, field.with_type(column.type))
        elif stored >= 0:
            column = relayout(decode_moments(column, field.type, field.name) if raw else column, field.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
