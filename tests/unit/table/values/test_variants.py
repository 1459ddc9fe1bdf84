"""JSON as VARIANT, read back by a decoder of its own."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.values.variants import NoVariant, encoded, variants_of_json
from tests.golden.variant import json_of

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
NESTED = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30)


def same(left: object, right: object) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool) or not isinstance(left, int | float):
        return left == right
    return isinstance(right, int | float) and math.isclose(left, right, rel_tol=1e-15)


@pytest.mark.slow
@given(NESTED)
def test_variants_survive_a_round_trip(value: object) -> None:
    assert same(json.loads(json_of(*encoded(json.dumps(value)))), value)


@pytest.mark.slow
def test_large_objects_and_arrays() -> None:
    value = {f"name{number}": [number] * 300 for number in range(300)}
    assert json.loads(json_of(*encoded(json.dumps(value)))) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "0c01"),
        ("-129", "107fff"),
        ("1.50", "200296000000"),
        ("1e3", "1c0000000000408f40"),
        ("true", "04"),
        ('"ab"', "096162"),
    ],
)
def test_scalars_are_encoded_in_the_smallest_form(text: str, expected: str) -> None:
    assert encoded(text)[0].hex() == expected


@pytest.mark.parametrize("text", ["{", '{"a": 1, "a": 2}', "", "NaN", "[Infinity]", '{"a": -Infinity}'])
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(NoVariant):
        encoded(text)


def test_a_null_variant_differs_from_a_json_null() -> None:
    found = variants_of_json(pa.array(["null", None]))
    assert found.is_valid().to_pylist() == [True, False]
