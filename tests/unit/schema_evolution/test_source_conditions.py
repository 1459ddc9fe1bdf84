"""What filters imply for the rows of a source."""

from __future__ import annotations

import pytest

from penstock.schema_evolution.expressions.parse import parse_expression, parse_projection
from penstock.schema_evolution.source_conditions import SourceConditions, columns_in
from penstock.table.values.types import STRING, AtomicType, DataType

TYPES: dict[str, DataType] = {
    "id": AtomicType("INT"),
    "big": AtomicType("BIGINT"),
    "price": AtomicType("DECIMAL", precision=10, scale=2),
    "wide": AtomicType("DECIMAL", precision=30, scale=2),
    "ratio": AtomicType("DOUBLE"),
    "name": STRING,
    "flag": AtomicType("BOOLEAN"),
    "day": AtomicType("DATE"),
    "at": AtomicType("TIMESTAMP", precision=6),
    "stamp": AtomicType("TIMESTAMP_LTZ", precision=6),
}


def implied(text: str, made: str | None = None) -> str | None:
    items = parse_projection(made) if made else ()
    found = SourceConditions(TYPES, items).implied(parse_expression(text))
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("id > 5 and name = 'a'", "id > 5 and name = 'a'"),
        ("5 < id", "id > 5"),
        ("not (id > 5 or name is null)", "id <= 5 and name is not null"),
        ("id in (1, 2)", "id = 1 or id = 2"),
        ("id not in (1, 2)", "id <> 1 and id <> 2"),
        ("id between 1 and 2.5", "id >= 1 and id <= 2.5"),
        ("flag and not flag", "flag = true and flag = false"),
        ("flag <> true", "flag = false"),
        ("day >= '2024-02-29'", "day >= '2024-02-29'"),
        ("day = cast('2024-02-29' as date)", "day = '2024-02-29'"),
        ("at < '2024-02-29'", "at < '2024-02-29 00:00:00'"),
        ("stamp < '2024-02-29 01:02:03'", "stamp < '2024-02-29 01:02:03+00:00'"),
        # Widened: as doubles, equal decimals may seem to differ.
        ("price > 19.99", "price >= 19.99"),
        # A part of AND that cannot be expressed is left out.
        ("id > 5 and upper(name) = 'A'", "id > 5"),
        # A part of OR that cannot be expressed may be true for every row.
        ("id > 5 or upper(name) = 'A'", None),
        ("not (id > 5 and upper(name) = 'A')", None),
        ("upper(name) = 'A'", None),
        ("id > big", None),
        ("id = null", None),
        ("big > 1.5", None),
        ("wide = 19.99", None),
        ("price <> 19.99", None),
        ("not (ratio > 1)", None),
        ("not (ratio = 1)", "ratio <> 1.0"),
        ("day = '2024-02-30'", None),
        ("day = '2024-2-3'", None),
        ("elsewhere = 1", None),
        ("coalesce(flag, false)", "flag = true"),
        ("not coalesce(flag, false)", None),  # also met where the flag is null
        ("id > 5 is true", "id > 5"),
        ("id > 5 is not true", None),
    ],
)
def test_a_condition_is_met_by_every_row_that_passes(text: str, condition: str | None) -> None:
    assert implied(text) == condition


def test_names_of_the_projection_are_followed_to_plain_columns() -> None:
    assert implied("number > 5 and loud = 'A'", "id as number, upper(name) as loud") == "id > 5"
    # A column of the source takes precedence.
    assert implied("id > 5", "big as id") == "id > 5"


def test_the_columns_of_a_condition() -> None:
    found = SourceConditions(TYPES).implied(parse_expression("id > 5 and (name = 'a' or day is null)"))
    assert found is not None
    assert columns_in(found) == {"id", "name", "day"}
