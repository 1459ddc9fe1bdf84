"""Casts of columns beside casts of their values one by one: no value decides how another one is cast."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.values.types import Field, parse_type
from tests.cases import each

COLUMNS = {
    "integers": pa.array([1, 2**40, -1, 300, None, 0]),
    "unsigned": pa.array([1, 2**64 - 1, 300], pa.uint64()),
    "doubles": pa.array([1.0, 1.5, 1e30, float("nan"), -0.0, float("inf"), None, 123456789.125, 99.96]),
    "floats": pa.array([1.0, 1.1, 1e30], pa.float32()),
    "decimals": pa.array([Decimal("2.00"), Decimal("2.50"), Decimal("-99999999.99"), None], pa.decimal128(12, 2)),
    "long decimals": pa.array([Decimal("1.0000000000"), Decimal("12345678901234567890.0000000001")]),
    "whole decimals": pa.array([Decimal(5), Decimal(10**20), None], pa.decimal128(21, 0)),
    "booleans": pa.array([True, False, None]),
    "dates": pa.array([dt.date(2020, 1, 1), dt.date(1, 1, 1), None]),
    "timestamps": pa.array([dt.datetime(2020, 1, 1, 1, 2, 3, 456_789), dt.datetime(1960, 1, 1), None]),
    "instants": pa.array([dt.datetime(2020, 1, 1, 1, 2, 3, 456_789), None, dt.datetime(1960, 1, 1)]).cast(
        pa.timestamp("us", tz="UTC")
    ),
    "times": pa.array([dt.time(1, 2, 3, 456_789), dt.time(0), None], pa.time64("us")),
    "durations": pa.array([1000, -1, 86_400_000_000], pa.duration("us")),
    "bytes": pa.array([b"abc", b"\xff", b"12", b"true", None, b"2020-01-01"]),
    "texts": pa.array(["1", "1.0", "2.50", "x", "", "true", "2020-01-01 01:02:03.456", None, "abcdef", "1e3", "NaN"]),
    "lists": pa.array([[Decimal("2.00")], [Decimal("2.50"), Decimal("1.00")], None, []]),
    "rows": pa.array([{"a": 1}, None, {"a": 2**40}]),
}
TYPES: tuple[Any, ...] = (
    *("BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(3, 1)", "DECIMAL(38, 0)", "DECIMAL(38, 20)"),
    *("STRING", "VARCHAR(3)", "CHAR(3)", "BYTES", "VARBINARY(2)", "DATE", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIME(3)"),
    *("TIMESTAMP(3) WITH LOCAL TIME ZONE", {"type": "ARRAY", "element": "INT"}, {"type": "ARRAY", "element": "STRING"}),
    {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]},
)


def cast(column: pa.Array, type_: Any, *, in_key: bool) -> tuple[pa.Array, list[int], int]:
    misfits = Misfits()
    values = fit_column(column, Field(0, "c", parse_type(type_)), TypeMapping(), misfits, in_key=in_key)
    return values, sorted(misfits.reasons), misfits.inexact + misfits.nulled


@pytest.mark.parametrize("in_key", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_is_cast_alike_beside_others(name: str, in_key: bool) -> None:
    each(TYPES, lambda type_: is_cast_alike(COLUMNS[name], type_, in_key))


def is_cast_alike(column: pa.Array, type_: Any, in_key: bool) -> None:
    whole, refused, changed = cast(column, type_, in_key=in_key)
    single = [cast(column.slice(row, 1), type_, in_key=in_key) for row in range(len(column))]
    for row, (value, _, _) in enumerate(single):
        found = whole.slice(row, 1)
        assert value.equals(found) or str(value) == str(found), column[row]  # NaN does not equal itself
    assert refused == [row for row, (_, reasons, _) in enumerate(single) if reasons]
    assert changed == sum(count for _, _, count in single)


def test_doubles_and_their_texts_become_the_same_decimals() -> None:
    doubles = pa.array([0.25, 0.35, 2.5, -0.05, None])
    cast_doubles, _, changed = cast(doubles, "DECIMAL(3, 1)", in_key=False)
    assert cast_doubles == cast(pc.cast(doubles, pa.string()), "DECIMAL(3, 1)", in_key=False)[0]
    assert [None if value is None else str(value) for value in cast_doubles.to_pylist()] == [
        "0.3",
        "0.4",
        "2.5",
        "-0.1",
        None,
    ]
    assert changed == 3


@pytest.mark.parametrize(
    ("type_text", "digits"), [("DECIMAL(10, 2)", 2), ("DECIMAL(20, 10)", 2), ("DECIMAL(38, 5)", 5)]
)
def test_doubles_with_the_digits_of_a_decimal_are_keys_and_those_next_to_them_are_not(
    type_text: str, digits: int
) -> None:
    """Arrow reads the decimal 8.65 as the double before it: one key of seven was a bad record."""
    chance = random.Random(digits)
    whole = [round(chance.uniform(-1000, 1000), digits) for _ in range(1000)]
    values, refused, _ = cast(pa.array(whole), type_text, in_key=True)
    assert (values.null_count, refused) == (0, [])
    assert cast(pa.array(whole), type_text, in_key=False)[2] == 0
    _, refused, _ = cast(pa.array([math.nextafter(value, 2000) for value in whole]), type_text, in_key=True)
    assert refused == list(range(len(whole)))


@pytest.mark.parametrize("target", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("scale", [2, 5, 10])
def test_decimals_and_their_texts_become_the_same_floating_point_numbers(target: str, scale: int) -> None:
    """Arrow takes the next double for one decimal of seven: a snapshot and its log had different values."""
    chance = random.Random(scale)
    decimals = pa.array([Decimal(chance.randrange(-(10**7), 10**7)).scaleb(-scale) for _ in range(1000)] + [None])
    values, _, _ = cast(decimals, target, in_key=False)
    assert values == cast(pc.cast(decimals, pa.string()), target, in_key=False)[0]
