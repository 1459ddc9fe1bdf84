from __future__ import annotations

import math

import pytest

from penstock.table.files.conditions import Bounds, ColumnCondition, all_may_contain
from penstock.table.files.value_bounds import safe_bounds
from penstock.table.values.types import parse_atomic

TENS = Bounds(10, 20, 0, 5)


@pytest.mark.parametrize(
    ("operator", "operands", "may_contain"),
    [
        ("=", (10,), True),
        ("=", (21,), False),
        ("!=", (10,), True),
        ("<", (10,), False),
        ("<", (11,), True),
        ("<=", (10,), True),
        (">", (20,), False),
        (">=", (20,), True),
        (">=", (21,), False),
        ("in", (1, 15), True),
        ("in", (1, 25), False),
        ("in", (), False),
        ("is null", (), False),
        ("is not null", (), True),
    ],
)
def test_conditions_that_no_value_in_the_bounds_satisfies_skip_the_file(
    operator: str, operands: tuple[object, ...], may_contain: bool
) -> None:
    assert ColumnCondition("c", operator, operands).may_contain(TENS) is may_contain


@pytest.mark.parametrize("operator", ["=", "<", "in"])
@pytest.mark.parametrize(
    "bounds", [Bounds(None, None, None, 5), Bounds(math.nan, math.nan, 0, 5), Bounds("a", "b", 0, 5)]
)
def test_missing_bounds_skip_no_file(operator: str, bounds: Bounds) -> None:
    assert ColumnCondition("c", operator, (1,)).may_contain(bounds)


def test_not_equal_skips_a_file_with_only_that_value() -> None:
    assert not ColumnCondition("c", "!=", (3,)).may_contain(Bounds(3, 3, 0, 9))


def test_nulls_alone_satisfy_only_is_null() -> None:
    nulls = Bounds(None, None, 5, 5)

    assert ColumnCondition("c", "is null").may_contain(nulls)
    assert not ColumnCondition("c", "is not null").may_contain(nulls)
    assert not ColumnCondition("c", "!=", (1,)).may_contain(nulls)


def test_all_conditions_must_be_possible_and_unknown_columns_skip_nothing() -> None:
    conditions = [ColumnCondition("a", ">", (5,)), ColumnCondition("b", "=", (1,))]

    assert all_may_contain(conditions, {"a": TENS})
    assert not all_may_contain(conditions, {"a": TENS, "b": TENS})


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="like"):
        ColumnCondition("c", "like", ("x",))


@pytest.mark.parametrize(
    ("kind", "low", "high", "bounds"),
    [
        ("DOUBLE", math.nan, math.nan, (None, None)),
        ("DOUBLE", 1.0, 2.0, (1.0, 2.0)),
        ("CHAR(4)", "ab  ", "cd  ", ("ab", "cd  ")),
        ("TIMESTAMP(3)", -62 * 10**18, 5, (None, None)),
        ("TIMESTAMP(3)", -5, 5, (-5, 5)),
        ("INT", None, None, (None, None)),
    ],
)
def test_truncated_bounds_of_java_orc_files_are_respected(
    kind: str, low: object, high: object, bounds: tuple[object, object]
) -> None:
    assert safe_bounds(low, high, parse_atomic(kind), "orc") == bounds
    assert safe_bounds("ab  ", "b", parse_atomic("CHAR(4)"), "parquet") == ("ab  ", "b")
