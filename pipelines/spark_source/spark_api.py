"""Parts of PySpark that Spark 4.0 and 4.1 lack, or have with other parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceStreamArrowWriter,
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNotNull,
        IsNull,
        LessThan,
        LessThanOrEqual,
        Not,
        StringContains,
        StringEndsWith,
        StringStartsWith,
    )
    from pyspark.sql.types import TimeType
else:
    try:
        from pyspark.sql.datasource import (
            DataSourceStreamArrowWriter,
            EqualNullSafe,
            EqualTo,
            Filter,
            GreaterThan,
            GreaterThanOrEqual,
            In,
            IsNotNull,
            IsNull,
            LessThan,
            LessThanOrEqual,
            Not,
            StringContains,
            StringEndsWith,
            StringStartsWith,
        )
        from pyspark.sql.types import TimeType
    except ImportError:  # Spark 4.0

        class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
            """The writer of a stream in Arrow batches. Spark 4.0 gives batches to each writer of the second kind."""

        class Filter:
            """Spark 4.0 pushes no filters down, so this and the classes below have no instances."""

        class EqualTo(Filter): ...

        class EqualNullSafe(Filter): ...

        class GreaterThan(Filter): ...

        class GreaterThanOrEqual(Filter): ...

        class LessThan(Filter): ...

        class LessThanOrEqual(Filter): ...

        class In(Filter): ...

        class IsNull(Filter): ...

        class IsNotNull(Filter): ...

        class Not(Filter): ...

        class StringStartsWith(Filter): ...

        class StringEndsWith(Filter): ...

        class StringContains(Filter): ...

        class TimeType(DataType):
            """Spark 4.0 has no times of the day, so this class has no instances."""


__all__ = [
    "HAS_TIMES",
    "DataSourceStreamArrowWriter",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "IsNotNull",
    "IsNull",
    "LessThan",
    "LessThanOrEqual",
    "Not",
    "StringContains",
    "StringEndsWith",
    "StringStartsWith",
    "TimeType",
    "arrow_target",
]

HAS_TIMES = TimeType.__module__ != __name__
# Before Spark 4.2 a parameter chose between UTC, its default, and no zone.
_UTC = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_target(schema: StructType) -> pa.Schema:
    """Return the exact Arrow schema that Spark expects for batches of `schema`."""
    return to_arrow_schema(schema, **_UTC)
