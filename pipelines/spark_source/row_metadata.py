"""The metadata columns of rows, named as in Paimon: their file, their position in it, their partition and bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.files.row_tracking import ROW_ID, ROW_VERSION, is_tracked
from penstock.table.meta.data_file import DataFile
from penstock.table.operations.placed_rows import FILE, ROW
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from penstock.table.schema.numbered_files import MAIN_BRANCH
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.internal import from_internal

FILE_PATH, ROW_INDEX = "__paimon_file_path", "__paimon_row_index"
PARTITION, BUCKET = "__paimon_partition", "__paimon_bucket"
# Columns that are known where a file is read alone
OF_FILES = frozenset({FILE_PATH, ROW_INDEX, ROW_ID.name})
NAMES = OF_FILES | {PARTITION, BUCKET, ROW_VERSION.name}


def check_readable(names: Sequence[str], schema: TableSchema, table: str, *, kinds: bool) -> None:
    """Raise ConfigError if the rows of a read have no such metadata.

    A row that is merged by key does not belong to one file, and a changed row may be in several files.
    """
    if names and kinds:
        raise ConfigError(
            f"rows that are read with their row kinds have no {names[0]}",
            table=table,
            hint="leave the metadata columns out; or read the table without rowkind and incremental-between",
        )
    tracked = sorted({ROW_ID.name, ROW_VERSION.name}.intersection(names))
    if ROW_VERSION.name in tracked or (tracked and not is_tracked(schema)):
        raise ConfigError(
            f"rows of the table have no {tracked[-1]} here",
            table=table,
            hint="SELECT *, _ROW_ID, _SEQUENCE_NUMBER FROM `t$row_tracking`, if the table has row-tracking.enabled",
        )
    of_files = sorted(OF_FILES.intersection(names))
    if of_files and schema.primary_keys:
        raise ConfigError(
            f"rows of a table with a primary key have no {of_files[0]}: they are merged from several files",
            table=table,
            hint="SELECT file_path, partition, bucket FROM `t$files`; rows have __paimon_partition and __paimon_bucket",
            paimon_message="Only append table or deletion vector table support querying metadata columns",
        )


def placed_rows(reader: SplitReader, split: Split, metadata: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split, with the name of their file, their position in it and metadata as the last columns."""
    own = reader.store.paths.branch or MAIN_BRANCH
    if split.branch not in {None, own}:
        raise ConfigError(
            f"rows of the branch {split.branch}, which scan.fallback-branch names, have no {FILE_PATH} here",
            table=reader.store.name,
            hint=f"read `t$branch_{split.branch}` itself",
        )
    for file, batch in reader.read_positions(split):
        *names, _ = batch.schema.names
        *values, positions = batch.columns
        place = [pa.repeat(pa.scalar(file.name), batch.num_rows), positions.cast(pa.int64())]
        rows = pa.RecordBatch.from_arrays([*values, *place], names=[*names, FILE, ROW])
        yield with_metadata(rows, metadata, reader, split, file)


def with_metadata(
    rows: pa.RecordBatch, names: Sequence[str], reader: SplitReader, split: Split, file: DataFile | None = None
) -> pa.RecordBatch:
    """Return the rows of a split with metadata as the last columns; those of files need the places of the rows."""
    for name in names:
        if name == ROW_ID.name:
            continue  # it came with the positions
        if name == ROW_INDEX:
            column = rows.column(ROW)
        elif name == FILE_PATH and file is not None:
            path = reader.layout.path_of(reader.store.paths, split.partition, split.bucket)(file)
            column = pa.repeat(pa.scalar(path), rows.num_rows)
        elif name == BUCKET:
            column = pa.repeat(pa.scalar(split.bucket, pa.int32()), rows.num_rows)
        else:
            column = _partition(reader, split, rows.num_rows)
        rows = rows.append_column(name, column)
    return rows


def _partition(reader: SplitReader, split: Split, count: int) -> pa.Array:
    fields = reader.layout.partition_fields
    if not fields:
        return pa.array([{}] * count, pa.struct([]))
    values = zip(fields, reader.layout.partition_values(split.partition), strict=True)
    columns = [pa.repeat(from_internal([value], field.type)[0], count) for field, value in values]
    return pa.StructArray.from_arrays(columns, names=[field.name for field in fields])
