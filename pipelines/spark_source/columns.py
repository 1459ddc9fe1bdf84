"""Columns as Spark has them: microseconds, and names of its own for the members of lists and maps."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from penstock.table.values.row_kinds import ROWKIND


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(pa.schema([_known(field) for field in schema]), prefer_timestamp_ntz=True)


def _known(field: pa.Field) -> pa.Field:
    return field.with_type(pa.time64("ns")) if pa.types.is_time32(field.type) else field


def arrow_target(schema: StructType) -> pa.Schema:
    """What Spark wants batches of `schema` to be, to the last detail."""
    return to_arrow_schema(schema, timezone="UTC")


def shaped(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The columns of `target`. Only times change their values: Spark knows no nanoseconds."""
    return batch.select(target.names).cast(target, safe=False)


def told_rows(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Where `target` leaves out the kinds of rows, only the rows that came: nothing would tell the others from them."""
    if ROWKIND not in batch.schema.names or ROWKIND in target.names:
        return batch
    return batch.filter(pc.is_in(batch.column(ROWKIND), pa.array(["+I", "+U"])))
