"""Columns with Spark's types: times in microseconds, and Spark's names for the members of lists and maps."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from penstock.row_kinds import ROWKIND


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(pa.schema([_known(field) for field in schema]), prefer_timestamp_ntz=True)


def _known(field: pa.Field) -> pa.Field:
    return field.with_type(pa.time64("ns")) if pa.types.is_time32(field.type) else field


def arrow_target(schema: StructType) -> pa.Schema:
    """Return the exact Arrow schema that Spark expects for batches of `schema`."""
    return to_arrow_schema(schema, timezone="UTC")


def shaped(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns of `target`. Only times change their values: Spark has no nanoseconds."""
    return batch.select(target.names).cast(target, safe=False)


def told_rows(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return only the new rows if `target` has no row kinds.

    Without a kind, the other rows could not be distinguished from them.
    """
    if ROWKIND not in batch.schema.names or ROWKIND in target.names:
        return batch
    return batch.filter(pc.is_in(batch.column(ROWKIND), pa.array(["+I", "+U"])))
