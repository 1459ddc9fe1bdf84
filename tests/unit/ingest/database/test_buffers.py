"""Arrow arrays of values whose bytes come from buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.byte_buffers import has_any, of_offsets
from penstock.errors import DecodeError
from penstock.ingest.database.buffers import is_repeated, repeated, with_values_at


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
