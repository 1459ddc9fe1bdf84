"""Values that a table's types cannot represent exactly as in the source.

They are converted by rules, and `verify` applies the same rules to the source, so both sides are compared afterwards.
The number of such values is counted, so that a result "equal" states what it does not cover.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import ChangeBatch
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import AtomicType

TIMES, BOOLEANS, NULLS = (
    "TIME truncated to milliseconds",
    "TINYINT(1) other than 0 and 1 read as true",
    "replaced by null (midnight if NOT NULL)",
)


def lossy_values(change: ChangeBatch, table: TableSchema, shape: PipelineMapping) -> Counter[str]:
    """Return how many values of the batch the table represents differently, by kind of conversion."""
    found: Counter[str] = Counter()
    types = {one.name: one.type for one in table.fields}
    for declared, column in zip(change.schema.fields, change.rows.columns, strict=True):
        type_ = types.get(shape.rules.name(declared.name))
        if not isinstance(type_, AtomicType):
            continue
        if type_.root == "BOOLEAN" and pa.types.is_integer(column.type):
            found[BOOLEANS] += _count(pc.greater(pc.abs(pc.subtract(pc.multiply(_int64(column), 2), 1)), 1))
        elif type_.root == "TIME" and _has_micros(column.type):
            micros = _int64(column)
            whole = pc.multiply(pc.divide(micros, 1000), 1000)
            found[TIMES] += _count(pc.not_equal(micros, whole))
    return +found


def _has_micros(type_: pa.DataType) -> bool:
    return type_ in {pa.time64("us"), pa.duration("us"), pa.int64()}


def _int64(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64())


def _count(flags: pa.Array) -> int:
    return int(pc.sum(flags).as_py() or 0)
