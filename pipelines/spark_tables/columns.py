"""Columns as Spark has them: microseconds, and names of its own for the members of lists and maps."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(pa.schema([_known(field) for field in schema]), prefer_timestamp_ntz=True)


def _known(field: pa.Field) -> pa.Field:
    return field.with_type(pa.time64("ns")) if pa.types.is_time32(field.type) else field


def arrow_target(schema: StructType) -> pa.Schema:
    """What Spark wants batches of `schema` to be, to the last detail."""
    return to_arrow_schema(schema, timezone="UTC")


def shaped(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Only times change their values: Spark knows no nanoseconds."""
    return batch.select(target.names).cast(target, safe=False)
