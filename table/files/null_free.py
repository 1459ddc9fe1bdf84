"""Columns without nulls: a Parquet file declares them REQUIRED, whatever the table's schema says.

Such a column has no definition levels, which cost a fifth of writing a column and of reading it. The schema of the
table still decides which columns may have nulls: files of a column that was NOT NULL once look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from penstock.table.files.columns import file_fields, source_of
from penstock.table.meta.data_file import DataFile
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import AtomicType, Field, with_nullability


def null_free(batches: Sequence[pa.RecordBatch | pa.Table]) -> frozenset[str]:
    """Return the columns that have no null in any of these batches, which have the same columns."""
    names = batches[0].schema.names if batches else []
    return frozenset(
        name for place, name in enumerate(names) if not any(batch.column(place).null_count for batch in batches)
    )


def null_free_in(files: Iterable[DataFile], schema: TableSchema) -> frozenset[str]:
    """Return the columns that have no null in any of these files, by their statistics.

    Statistics may be missing, and files of another schema version may lack columns: none of these counts as proof.
    """
    names = frozenset(schema.names)
    for file in files:
        columns = schema.names if file.value_stats_cols is None else file.value_stats_cols
        counts = file.value_stats.null_counts
        if file.schema_id != schema.id or file.write_cols is not None or len(counts) != len(columns):
            return frozenset()
        names &= {name for name, nulls in zip(columns, counts, strict=True) if nulls == 0}
    return names


@lru_cache(maxsize=512)
def declared_fields(schema: TableSchema, names: frozenset[str]) -> tuple[Field, ...]:
    """Return the columns of a data file, with the flat ones among `names` declared NOT NULL."""
    return tuple(_required(field) if source_of(field) in names else field for field in file_fields(schema))


# Each batch may have other columns without nulls. In a table of 1,000 columns, new fields for each of them would cost
# 0.6 MB in the caches of whole schemas, and 15 ms.
@lru_cache(maxsize=16_384)
def _required(field: Field) -> Field:
    # A variant is stored as a struct.
    flat = isinstance(field.type, AtomicType) and field.type.root != "VARIANT"
    return replace(field, type=with_nullability(field.type, nullable=False)) if flat else field
