"""Spark's filters as Arrow's: the same rows, or not taken at all."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, GreaterThan, In, IsNull, Not, StringStartsWith

from penstock.pipelines.spark_source.batch_read import expression

ROWS = pa.table(
    {
        "q": pa.array([1, 2, None], pa.int32()),
        "name": pa.array(["ab", None, "b"]),
        "x": pa.array([1.0, float("nan"), None]),
        "d": pa.array([Decimal("1.50"), None, Decimal("2.00")], pa.decimal128(10, 2)),
        "ms": pa.array([0, 1, None], pa.timestamp("ms")),
        "ns": pa.array([0, 1, None], pa.timestamp("ns")),
        "flag": pa.array([True, False, None]),
    }
)
ATTRIBUTES = {name: (name,) for name in ROWS.schema.names}
Q, NAME, X, D, MS, NS, FLAG = ATTRIBUTES.values()
EPOCH = dt.datetime(1970, 1, 1)


@pytest.mark.parametrize(
    ("given", "places"),
    [
        (EqualTo(Q, 1), [0]),
        (Not(EqualTo(Q, 1)), [1]),
        (Not(EqualNullSafe(Q, 1)), [1, 2]),
        (EqualNullSafe(Q, None), [2]),
        (In(Q, (1, 3)), [0]),
        (Not(In(Q, (1, 3))), [1]),
        (In(FLAG, (True, False, True)), [0, 1]),
        (In(FLAG, (False,)), [1]),
        (Not(In(FLAG, (False,))), [0]),
        (IsNull(Q), [2]),
        (Not(IsNull(Q)), [0, 1]),
        (StringStartsWith(NAME, "a"), [0]),
        (Not(StringStartsWith(NAME, "a")), [2]),
        (EqualTo(D, Decimal("1.5")), [0]),
        (GreaterThan(MS, EPOCH), [1]),
    ],
)
def test_filter_keeps_the_rows_that_sql_keeps(given: Filter, places: list[int]) -> None:
    where = expression(given, ROWS.schema)
    assert where is not None
    numbered = ROWS.append_column("place", pa.array(range(ROWS.num_rows)))
    assert numbered.filter(where)["place"].to_pylist() == places


@pytest.mark.parametrize(
    "given",
    [
        GreaterThan(X, 1.0),  # a NaN is the greatest to Spark
        EqualTo(NS, EPOCH),  # Spark sees no nanoseconds
        EqualTo(MS, EPOCH.replace(microsecond=1)),
        EqualTo(D, Decimal("1.505")),
        EqualTo(Q, 1 << 40),
        Not(In(Q, (1, None))),
        EqualTo(("r", "a"), 1),
        EqualTo(("rowkind",), "+I"),
    ],
)
def test_filters_that_arrow_evaluates_differently_are_left_to_spark(given: Filter) -> None:
    assert expression(given, ROWS.schema) is None
