"""The distinct keys of a batch: numbers are sorted, and other keys collected, with the same result."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.table.lookup.lookup_keys import _distinct_values, rows_of_keys

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 2, 500])
def test_distinct_numbers_are_those_that_a_set_has(type_: pa.DataType, rows: int) -> None:
    values = np.random.default_rng(rows).integers(-100, 100, rows)
    column = pa.concat_arrays([pa.array([9], type_), pa.array(values, type_)]).slice(1)
    [distinct], codes = _distinct_values(column)
    assert distinct.type == type_
    assert distinct.to_pylist() == sorted(set(values.tolist()))
    assert distinct.take(pa.array(codes)).equals(column)


def test_a_null_is_no_key() -> None:
    [distinct], codes = _distinct_values(pa.array([5, None, -1, 5]))
    assert distinct.to_pylist() == [-1, 5]
    assert codes.tolist() == [1, -1, 0, 1]


@pytest.mark.parametrize("most", [1, 3])
def test_rows_in_any_order_are_found_for_each_key(most: int) -> None:
    draw = np.random.default_rng(most)
    codes = draw.integers(-1, 20, 50)
    which = draw.permutation(np.repeat(np.arange(20), draw.integers(0, most + 1, 20)))
    numbers, places = rows_of_keys(codes, which, 20)
    # Rows of one key stay in their order.
    expected = [(number, row) for number, code in enumerate(codes) for row in np.flatnonzero(which == code)]
    assert list(zip(numbers.tolist(), places.tolist(), strict=True)) == expected
