"""Numbers within lists, maps and structs are rounded as those of a column are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.table.values.nested_numbers import with_exact_numbers

PRICE = pa.decimal128(3, 1)
DOUBLES = [0.25, 0.35, None, -2.5]
ROUNDED = [Decimal("0.3"), Decimal("0.4"), None, Decimal("-2.5")]


def nested(kind: str, number: pa.DataType) -> pa.DataType:
    of = {
        "list": pa.list_(number),
        "large list": pa.large_list(number),
        "lists": pa.list_(pa.list_(number)),
        "fixed": pa.list_(number, 4),
        "map": pa.map_(pa.string(), number),
        "struct": pa.struct([("b", pa.string()), ("a", number)]),
        "structs": pa.list_(pa.struct([("a", number)])),
    }
    return of[kind]


def values(kind: str, numbers: list[Any]) -> list[Any]:
    match kind:
        case "lists":
            return [None, [numbers, None, []], [[], numbers[:1]]]
        case "map":
            return [None, [(str(place), number) for place, number in enumerate(numbers)], [], [("z", numbers[0])]]
        case "struct":
            return [None, *({"b": "x", "a": number} for number in numbers)]
        case "structs":
            return [None, [{"a": number} for number in numbers], [None], []]
        case "fixed":
            return [None, numbers, numbers[::-1]]
    return [None, numbers, [], numbers[:1]]


KINDS = ["list", "large list", "lists", "fixed", "map", "struct", "structs"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_nested_doubles_become_decimals_that_are_rounded_half_up(kind: str, skipped: int) -> None:
    target = nested("list" if kind in {"large list", "fixed"} else kind, PRICE)
    # The first value is outside of the slice: it does not fit, and is not looked at.
    numbers = [[9999.0] * 4, DOUBLES] if kind != "struct" else [[9999.0], DOUBLES]
    rows = [*values(kind, numbers[0]), *values(kind, numbers[1])]
    column = pa.array(rows, nested(kind, pa.float64())).slice(len(values(kind, numbers[0])) + skipped)

    got = pc.cast(with_exact_numbers(column, target), target)

    got.validate(full=True)
    assert got.to_pylist() == values(kind, ROUNDED)[skipped:]


@pytest.mark.parametrize("kind", KINDS)
def test_nested_decimals_become_the_closest_doubles(kind: str) -> None:
    numbers = [Decimal("58459.20"), Decimal("-92.94"), None, Decimal("0.07")]
    column = pa.array(values(kind, numbers), nested(kind, pa.decimal128(9, 2)))

    got = with_exact_numbers(column, nested("list" if kind in {"large list", "fixed"} else kind, pa.float64()))

    assert got.to_pylist() == values(kind, [58459.2, -92.94, None, 0.07])


def test_a_number_under_a_null_struct_may_be_too_large() -> None:
    members = pa.array([9999.0, 0.25])
    column = pa.StructArray.from_arrays([members], ["a"], mask=pa.array([True, False]))

    got = with_exact_numbers(column, pa.struct([("a", PRICE)]))

    assert got.to_pylist() == [None, {"a": Decimal("0.3")}]


def test_a_nested_number_that_is_too_large_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        with_exact_numbers(pa.array([[99.95]]), pa.list_(PRICE))


def test_columns_without_such_numbers_are_returned_as_they_are() -> None:
    column = pa.array([[1, 2]])
    assert with_exact_numbers(column, pa.list_(PRICE)) is column
