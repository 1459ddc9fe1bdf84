"""The ids and versions of rows in tables with row-tracking.enabled, as columns of data files.

A file that was written with new rows has neither column: its rows are numbered from the first row id in its manifest
entry, and their version is the version of the file. Files that also contain rows of other files have both columns, in
which null means the same. Java Paimon writes and reads them in the same way.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.files.columns import SEQUENCE_NUMBER
from penstock.table.meta.data_file import DataFile
from penstock.table.options.writers import ROW_TRACKING_ENABLED
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import AtomicType, Field

ROW_ID = Field(2147483642, "_ROW_ID", AtomicType("BIGINT"))
ROW_VERSION = replace(SEQUENCE_NUMBER, type=AtomicType("BIGINT"))
TRACKED = (ROW_ID, ROW_VERSION)


def is_tracked(schema: TableSchema) -> bool:
    """Return whether the rows of the table have ids."""
    return schema.typed[ROW_TRACKING_ENABLED]


def with_row_ids(schema: TableSchema) -> TableSchema:
    """Return the schema of files that contain the ids and versions of their rows, without statistics of these."""
    no_statistics = {f"fields.{field.name}.stats-mode": "none" for field in TRACKED}
    options = {**schema.options, **no_statistics, "metadata.stats-dense-store": "true"}
    return replace(schema, fields=(*schema.fields, *TRACKED), options=options)


def row_ids(ids: pa.Array, positions: pa.Array, file: DataFile) -> pa.Array:
    """Return the ids of rows, given the column of the file and their positions in it."""
    first = file.first_row_id
    if first is None:
        return ids
    return pc.coalesce(ids, pa.array(np.asarray(positions) + first, pa.int64()))


def row_versions(versions: pa.Array, file: DataFile) -> pa.Array:
    """Return the versions of rows, given the column of the file: the snapshots that wrote them."""
    return pc.coalesce(versions, pa.scalar(file.max_sequence, pa.int64()))


def with_ids(rows: pa.RecordBatch, file: DataFile, positions: pa.Array) -> pa.RecordBatch:
    """Return rows of a file with their ids and versions, given the columns TRACKED of the file as the first two."""
    ids, versions = row_ids(rows.column(0), positions, file), row_versions(rows.column(1), file)
    return rows.set_column(0, ROW_ID.name, ids).set_column(1, ROW_VERSION.name, versions)
