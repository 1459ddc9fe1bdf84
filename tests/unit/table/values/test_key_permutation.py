"""Permutations that sort keys keep equal keys in the order they came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.values import key_permutation
from penstock.table.values.key_permutation import argsort_flush, argsort_runs, stable_order
from penstock.table.values.sort_keys import sort_keys
from penstock.table.values.types import STRING

INTS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=200).map(
    lambda v: np.array(v, np.int64)
)
TEXTS = st.lists(
    st.tuples(st.sampled_from(["", "user-000", "user-0001-", "\0"]), st.text(max_size=3)).map("".join), max_size=200
).map(lambda texts: sort_keys([pa.array(texts, pa.string())], [STRING]))


@given(INTS | TEXTS)
def test_both_ways_are_the_stable_sort(keys: np.ndarray) -> None:
    expected = np.argsort(keys, kind="stable").tolist()
    assert argsort_flush(keys).tolist() == expected
    assert argsort_runs(keys).tolist() == expected


@pytest.mark.parametrize("sorted_runs", [True, False])
def test_sorted_runs_only_change_the_cost(sorted_runs: bool) -> None:
    keys = np.array([5, 5, 1, 2**62, -(2**63), 5], np.int64)
    assert stable_order(keys, sorted_runs).tolist() == [4, 2, 0, 1, 5, 3]


@pytest.mark.parametrize("bits", [1, 15, 16, 17, 31, 32, 33, 48, 63])
@pytest.mark.parametrize("least", [0, -(2**63), 2**62])
def test_keys_of_any_range_sort(bits: int, least: int) -> None:
    numbers = np.random.default_rng(bits).integers(0, min(2**bits, 2**63 - 1 - max(least, 0)), 5_000)
    keys = np.concatenate([numbers, numbers[:1_000]]) + least
    assert (argsort_flush(keys) == np.argsort(keys, kind="stable")).all()


@pytest.mark.parametrize("text", ["{:036x}", "order-{:08d}", "{:x}{:x}"])
def test_long_keys_with_common_beginnings_sort(text: str) -> None:
    random = np.random.default_rng(3)
    numbers = random.integers(0, 5000, 20_000)
    keys = sort_keys([pa.array([text.format(v, v * 7919) for v in numbers.tolist()])], [STRING])
    expected = np.argsort(keys, kind="stable")
    assert (argsort_flush(keys) == expected).all()
    assert (argsort_runs(keys) == expected).all()


@pytest.mark.parametrize("shared", [*range(20), 63, 64, 65, 5000])
@pytest.mark.parametrize("compared", [1, 300, 1 << 20])
def test_keys_differ_after_any_number_of_equal_bytes(
    monkeypatch: pytest.MonkeyPatch, shared: int, compared: int
) -> None:
    monkeypatch.setattr(key_permutation, "_COMPARED", compared)
    ends = ["b", "a", "", "ab", "ba", "b", "a" * 12 + "b", "a" * 12]
    keys = sort_keys([pa.array(["x" * shared + end for end in ends])], [STRING])
    matrix = np.frombuffer(np.ascontiguousarray(keys), np.uint8).reshape(len(keys), -1)
    differ = np.flatnonzero((matrix != matrix[0]).any(axis=0))[0]
    assert key_permutation._shared_bytes(matrix, matrix.shape[1]) == differ
    expected = np.argsort(keys, kind="stable").tolist()
    assert argsort_flush(keys).tolist() == expected
    assert argsort_runs(keys).tolist() == expected


def test_a_long_equal_beginning_is_compared_in_few_steps() -> None:
    steps = list[int]()

    class Counted(np.ndarray):
        def __getitem__(self, index: object) -> object:  # type: ignore[override]
            steps.append(1)
            return super().__getitem__(index)  # type: ignore[call-overload]

    matrix = np.zeros((4, 1 << 20), np.uint8).view(Counted)
    assert key_permutation._shared_bytes(matrix, 1 << 20) == 1 << 20
    assert len(steps) < 100
