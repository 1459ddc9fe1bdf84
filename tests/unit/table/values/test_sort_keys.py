"""Key arrays sort, search and compare as the table orders rows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.table.values import sort_keys as sort_key_module
from penstock.table.values.internal import from_internal, order_value, order_values
from penstock.table.values.key_layout import key_layout
from penstock.table.values.sort_keys import comparable_keys, sort_keys
from penstock.table.values.types import BIGINT, INT, STRING, parse_type
from tests.unit.table.values.samples import ATOMIC_TYPES, values_of

DOUBLE = parse_type("DOUBLE")


def key_sets(width: int = 3) -> st.SearchStrategy[Any]:
    """Types, directions and two inputs of rows; few distinct values, so that keys meet."""

    def rows_of(types: list[Any]) -> st.SearchStrategy[Any]:
        pools = st.tuples(*(st.lists(values_of(type_), min_size=1, max_size=5) for type_ in types))
        rows = pools.flatmap(lambda pool: st.lists(st.tuples(*map(st.sampled_from, pool)), min_size=1, max_size=20))
        return st.tuples(st.just(types), st.tuples(*(st.booleans() for _ in types)), rows, rows)

    return st.lists(ATOMIC_TYPES, min_size=1, max_size=width).flatmap(rows_of)


def columns_of(rows: list[Any], types: list[Any]) -> list[pa.Array]:
    return [from_internal(list(column), type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]


class Reversed:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and bool(other.value == self.value)

    __hash__ = None  # type: ignore[assignment]


def model_key(row: Any, types: list[Any], down: tuple[bool, ...]) -> list[Any]:
    parts = order_values(row, types)
    return [Reversed(part) if flag else part for part, flag in zip(parts, down, strict=True)]


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 2)
@given(key_sets())
def test_keys_order_and_equal_as_rows_do_within_and_across_inputs(case: Any) -> None:
    types, down, left, right = case
    inputs = [columns_of(rows, types) for rows in (left, right)]
    mine, theirs = comparable_keys(inputs, types, down, signed_zero=True)
    keys = np.concatenate([mine, theirs])
    model = [model_key(row, types, down) for row in left + right]
    order = np.argsort(keys, kind="stable").tolist()
    assert order == sorted(range(len(model)), key=model.__getitem__)
    for i, j in itertools.pairwise(order):
        assert (keys[i] == keys[j]) == (model[i] == model[j])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(key_sets(1))
def test_one_layout_joined_from_two_inputs_makes_them_comparable(case: Any) -> None:
    types, down, left, right = case
    a, b = columns_of(left, types), columns_of(right, types)
    layout = key_layout(a, types, down).joined(key_layout(b, types, down))
    together = np.concatenate([sort_keys(a, types, layout=layout), sort_keys(b, types, layout=layout)])
    assert together.dtype == sort_keys(a, types, layout=layout).dtype
    both = comparable_keys([a, b], types, down)
    assert together.tolist() == np.concatenate(both).tolist()


def test_one_integer_column_is_its_own_key() -> None:
    assert sort_keys([pa.array([3, -1], pa.int32())], [INT]).tolist() == [3, -1]
    assert sort_keys([pa.array([3, -1])], [BIGINT], (True,)).tolist() == [-4, 0]


def test_short_composite_keys_are_integers_too() -> None:
    keys = sort_keys([pa.array([1, 1, -1], pa.int32()), pa.array([5, -5, 9], pa.int32())], [INT, INT])
    assert keys.dtype == np.int64
    assert np.argsort(keys).tolist() == [2, 1, 0]


def test_null_is_below_the_smallest_bigint() -> None:
    keys = sort_keys([pa.array([-(2**63), None])], [BIGINT])
    assert keys[1] < keys[0]


def test_texts_that_differ_in_trailing_zero_bytes_are_different_keys() -> None:
    texts = pa.array(["a", "a\0", "a\0\0", "longer than eight", "😀", "\uffff"])
    keys = sort_keys([texts], [STRING])
    assert len(set(keys.tolist())) == 6
    assert np.argsort(keys).tolist() == [0, 1, 2, 3, 5, 4]


def test_uniform_texts_are_not_copied() -> None:
    texts = pa.array([f"{i:036d}" for i in range(3)])
    keys = sort_keys([texts], [STRING])
    assert keys.dtype == np.dtype("S36")
    assert keys.ctypes.data == texts.buffers()[2].address


def test_zeros_are_one_key_and_nan_is_the_largest() -> None:
    values = pa.array([math.nan, 0.0, -0.0, math.inf, -math.inf, None])
    keys = sort_keys([values], [DOUBLE])
    assert keys[1] == keys[2]
    assert np.argsort(keys, kind="stable").tolist() == [5, 4, 1, 2, 3, 0]
    signed = sort_keys([values], [DOUBLE], signed_zero=True)
    assert np.argsort(signed, kind="stable").tolist() == [5, 4, 2, 1, 3, 0]


def test_order_value_is_double_compare_with_null_first() -> None:
    values = [math.nan, 0.0, -0.0, -1.5, math.inf, None]
    assert sorted(values, key=lambda v: order_value(v, DOUBLE))[:5] == [None, -1.5, -0.0, 0.0, math.inf]
    assert order_value(-0.0, DOUBLE) < order_value(0.0, DOUBLE)


def test_one_very_long_text_does_not_widen_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_key_module, "_WIDE_MATRIX", 1000)
    left = pa.array(["b", None, "x" * 5000])
    right = pa.array(["a", "b"])
    mine, theirs = comparable_keys([[left], [right]], [STRING])
    assert mine.dtype == np.dtype("S9")
    assert mine[0] == theirs[1]
    assert np.argsort(np.concatenate([mine, theirs]), kind="stable").tolist() == [1, 3, 0, 4, 2]


def test_nested_types_have_no_order() -> None:
    type_ = parse_type({"type": "ARRAY", "element": "INT"})
    with pytest.raises(ConfigError, match="no order"):
        sort_keys([pa.array([[1]], pa.list_(pa.int32()))], [type_])


def test_empty_input_has_no_keys() -> None:
    assert len(sort_keys([pa.array([], pa.string())], [STRING])) == 0
    assert len(sort_keys([pa.array([], pa.string()), pa.array([], pa.int64())], [STRING, BIGINT])) == 0
