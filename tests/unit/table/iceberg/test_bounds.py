"""Single values as Iceberg's bounds, beside what pyiceberg makes of the bytes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pyiceberg import types as iceberg
from pyiceberg.conversions import from_bytes

from penstock.table.iceberg.bounds import bound_bytes, internal_value, partition_value
from penstock.table.values.types import parse_type

VALUES = [
    ("BOOLEAN", True, iceberg.BooleanType(), True),
    ("TINYINT", -3, iceberg.IntegerType(), -3),
    ("INT", 2**31 - 1, iceberg.IntegerType(), 2**31 - 1),
    ("BIGINT", -(2**63), iceberg.LongType(), -(2**63)),
    ("FLOAT", 1.5, iceberg.FloatType(), 1.5),
    ("DOUBLE", -1.25, iceberg.DoubleType(), -1.25),
    ("DATE", 19724, iceberg.DateType(), 19724),
    ("TIMESTAMP(6)", 1_700_000_000_123_456_000, iceberg.TimestampType(), 1_700_000_000_123_456),
    ("TIMESTAMP(6)", -1_000, iceberg.TimestampType(), -1),
    ("STRING", "é", iceberg.StringType(), "é"),
    ("BYTES", b"\x00\xff", iceberg.BinaryType(), b"\x00\xff"),
    *(("DECIMAL(20, 2)", Decimal(text), iceberg.DecimalType(20, 2), Decimal(text)) for text in ("0", "1.27", "1.28")),
    *(("DECIMAL(20, 2)", Decimal(text), iceberg.DecimalType(20, 2), Decimal(text)) for text in ("-1.28", "-1.29")),
]


@pytest.mark.parametrize(("type_", "value", "as_type", "expected"), VALUES)
def test_pyiceberg_reads_the_bytes(type_: str, value: Any, as_type: Any, expected: Any) -> None:
    data = bound_bytes(value, parse_type(type_), upper=True)  # type: ignore[arg-type]  # all are atomic
    assert data is not None
    assert from_bytes(as_type, data) == expected


def test_nan_is_no_bound_and_zero_has_both_signs() -> None:
    double: Any = parse_type("DOUBLE")
    assert bound_bytes(float("nan"), double, upper=True) is None
    assert bound_bytes(None, double, upper=True) is None
    low, high = (bound_bytes(0.0, double, upper=upper) for upper in (False, True))
    assert low == b"\x00" * 7 + b"\x80"
    assert high == b"\x00" * 8


@pytest.mark.parametrize(("type_", "value"), [("TIMESTAMP(6)", 1_000_000), ("STRING", "a"), ("DATE", 3)])
def test_values_of_partitions_come_back(type_: str, value: Any) -> None:
    atom: Any = parse_type(type_)
    assert internal_value(partition_value(value, atom), atom) == value
