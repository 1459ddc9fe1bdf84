"""Arrow arrays of values whose bytes come from buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.byte_buffers import has_any, of_offsets
from penstock.errors import DecodeError
from penstock.ingest.database.buffers import (
    EvenPlaces,
    big_endian_at,
    is_repeated,
    read_at,
    repeated,
    unsigned_at,
    with_spare_bytes,
    with_values_at,
)


def test_values_of_two_gib_are_refused_and_never_wrapped() -> None:
    content, null = np.zeros(1, np.uint8), np.zeros(2, np.bool_)
    with pytest.raises(DecodeError, match="2 values of a column have 2147483648 bytes"):
        of_offsets(pa.binary(), content, np.array([0, 1, 1 << 31]), null)
    assert of_offsets(pa.binary(), content, np.array([0, 1, 1]), null).to_pylist() == [b"\0", b""]


@pytest.mark.parametrize("mask", [[], [False], [True], [False] * 3000, [False] * 2999 + [True]])
def test_whether_one_is_true(mask: list[bool]) -> None:
    assert has_any(np.array(mask, np.bool_)) == any(mask)


@pytest.mark.parametrize("value", [False, True, 2**40])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_repeated_value(value: int, count: int) -> None:
    found = repeated(value, count)
    assert found.tolist() == [value] * count
    assert is_repeated(found)
    assert not is_repeated(np.array([value, value]))
    if found.dtype == np.bool_:
        assert has_any(found) == (value and count > 0)


def test_values_replace_those_at_some_places_of_a_column() -> None:
    column, values = pa.array([1, 2, 3, 4], pa.int64()), pa.array([40, 20], pa.int32())
    found = with_values_at(column, np.array([3, 1], np.int64), values)
    assert found.equals(pa.array([1, 20, 3, 40], pa.int64()))


@given(st.binary(min_size=40, max_size=200), st.integers(0, 7), st.integers(8, 12), st.integers(1, 8))
def test_numbers_at_even_places_are_those_at_their_positions(raw: bytes, first: int, step: int, width: int) -> None:
    places = EvenPlaces(first, step, (len(raw) - first) // step)
    assert len(places + 1) == len(places)
    data = with_spare_bytes(raw)
    if width < 8:
        assert unsigned_at(data, places, width).tolist() == unsigned_at(data, places.positions, width).tolist()
    assert big_endian_at(data, places, width).tolist() == big_endian_at(data, places.positions, width).tolist()
    assert read_at(data, "<u2", places).tolist() == read_at(data, "<u2", places.positions).tolist()
