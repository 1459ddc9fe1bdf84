"""Orders by several columns: codes order as values do, and curves keep near what is near."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.curves import code_order, hilbert_codes, value_codes, z_codes
from penstock.table.values.types import parse_type

SIDE = 16
RISING = {
    "TINYINT": [None, -128, -1, 0, 1, 127],
    "INT": [None, -(2**31), -7, 0, 9, 2**31 - 1],
    "BIGINT": [None, -(2**63) + 1, -1, 0, 1, 2**63 - 1],
    "DOUBLE": [None, float("-inf"), -1.5, -0.0, 0.0, 2.5, float("inf"), float("nan")],
    "FLOAT": [None, -2.5, 0.0, 1.25],
    "DECIMAL(30, 2)": [None, Decimal("-1e20"), Decimal("-0.01"), Decimal("0.00"), Decimal("5.10"), Decimal("1e25")],
    "DATE": [None, date(1960, 1, 1), date(1970, 1, 1), date(2026, 1, 1)],
    "TIMESTAMP(3)": [None, datetime(1960, 1, 1), datetime(2026, 1, 1)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [None, datetime(1960, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
    "STRING": [None, "a", "ab", "b", "\u00e9"],
    "BYTES": [None, b"\x01", b"\x01\x01", b"\xff"],
    "BOOLEAN": [None, True],
}


@pytest.mark.parametrize("text", RISING)
def test_codes_increase_with_the_values(text: str) -> None:
    type_ = parse_type(text)
    column = pa.array(RISING[text], to_arrow(type_))
    codes = [bytes(code) for code in value_codes(column, type_)]
    assert codes == sorted(codes)
    assert len(set(codes)) == len(codes)
    assert not any(codes[0])


def grid() -> list[np.ndarray]:  # type: ignore[type-arg]
    places = np.arange(SIDE * SIDE)
    return [value_codes(pa.array(axis, pa.int64()), parse_type("BIGINT")) for axis in (places // SIDE, places % SIDE)]


def test_adjacent_codes_of_the_hilbert_curve_are_adjacent_points() -> None:
    order = code_order(hilbert_codes(grid())).tolist()
    assert sorted(order) == list(range(SIDE * SIDE))
    steps = [abs(a // SIDE - b // SIDE) + abs(a % SIDE - b % SIDE) for a, b in pairwise(order)]
    assert set(steps) == {1}


def test_the_z_curve_visits_nested_squares() -> None:
    order = code_order(z_codes(grid())).tolist()
    assert order[:4] == [0, 1, SIDE, SIDE + 1]
    quarter = {place for place in range(SIDE * SIDE) if place // SIDE < SIDE // 2 and place % SIDE < SIDE // 2}
    assert set(order[: SIDE * SIDE // 4]) == quarter


def test_columns_without_more_bits_are_skipped() -> None:
    long, short = np.array([[0b10101010, 0xFF]], np.uint8), np.array([[0]], np.uint8)
    assert z_codes([long, short]).tobytes() == bytes([0b10001000, 0b10001000, 0xFF])


def test_nested_values_have_no_order() -> None:
    with pytest.raises(ConfigError, match="nested"):
        value_codes(pa.array([[1]]), parse_type("VARIANT"))
