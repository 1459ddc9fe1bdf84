"""Columns as DuckDB reads them. Unlike Paimon, DuckDB does not distinguish names that differ only in case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.read.lazy_dataset import Rows, named_in
from penstock.table.values.names import alike_columns, refuse_alike


def distinct_rows(schema: pa.Schema, rows: Rows, table: str | None = None) -> tuple[pa.Schema, Rows]:
    """Return the columns and the rows of a table for DuckDB. A query that needs columns with names alike is refused."""
    alike = alike_columns(schema.names)
    if not alike:
        return schema, rows

    def refusing(columns: Sequence[str] | None, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        needed = {*(schema.names if columns is None else columns), *(() if where is None else named_in(alike, where))}
        return rows(columns, where) if needed.isdisjoint(alike) else _refused(alike, table)

    # DuckDB reads the first column for count(*).
    ordered = sorted(schema, key=lambda field: field.name in alike)
    return pa.schema(ordered, schema.metadata), refusing


def _refused(alike: Sequence[str], table: str | None) -> Iterator[pa.RecordBatch]:
    """Raise when the rows are read: DuckDB would turn an error of the call itself to text."""
    refuse_alike(alike, table)
    yield from ()
