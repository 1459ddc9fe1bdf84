"""The comparer of golden relations: it must be able to say no."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.golden.cases import Case, case_names
from tests.golden.relations import Relation, difference, encode
from tests.golden.rows import arrow_rows


def relation(rows: list[list[Any]], *types: Any, kinds: list[str] | None = None) -> Relation:
    return Relation(tuple("abc"[: len(types)]), types, rows, kinds)


@pytest.mark.parametrize(
    ("array", "kind", "encoded"),
    [
        (pa.array([decimal.Decimal("12.30"), None]), "DECIMAL(10, 2)", ["12.30", None]),
        (pa.array([b"\x00\xff", b""]), "BYTES", ["00ff", ""]),
        (pa.array([dt.date(2024, 2, 29), None]), "DATE", ["2024-02-29", None]),
        (pa.array([86399999], pa.time32("ms")), "TIME(3)", ["23:59:59.999"]),
        (pa.array([-1, None], pa.timestamp("ms")), "TIMESTAMP(3)", ["1969-12-31T23:59:59.999000000", None]),
        (pa.array([1], pa.timestamp("ns")), "TIMESTAMP(9) NOT NULL", ["1970-01-01T00:00:00.000000001"]),
        (
            pa.array([0], pa.timestamp("us", "UTC")),
            "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            ["1970-01-01T00:00:00.000000000Z"],
        ),
        (pa.array([dt.datetime(1, 1, 1)], pa.timestamp("s")), "TIMESTAMP(0)", ["0001-01-01T00:00:00.000000000"]),
        (pa.array([float("nan"), -0.0, 1.5]), "DOUBLE", ["NaN", "-0.0", 1.5]),
        (pa.array([0.1, -float("inf")], pa.float32()), "FLOAT", [0.1, "-Infinity"]),
        (pa.array([[1, None], None, []])[1:], {"type": "ARRAY", "element": "INT"}, [None, []]),
        (
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            {"type": "MULTISET", "element": "STRING"},
            [[["k", 1]]],
        ),
        (
            pa.array([{"x": 1, "y": [b"a"]}, None]),
            {
                "type": "ROW",
                "fields": [{"name": "x", "type": "INT"}, {"name": "y", "type": {"type": "ARRAY", "element": "BYTES"}}],
            },
            [{"x": 1, "y": ["61"]}, None],
        ),
    ],
)
def test_arrow_values_have_the_encoding_of_java(
    array: pa.Array, kind: str | Mapping[str, Any], encoded: list[Any]
) -> None:
    assert encode(array, kind) == encoded


def test_order_of_rows_and_of_map_entries_does_not_count() -> None:
    kind = {"type": "MAP", "key": "STRING", "value": "INT"}
    left = relation([[1, [["a", 1], ["b", 2]]], [2, None]], "INT", kind)
    right = relation([[2, None], [1, [["b", 2], ["a", 1]]]], "INT", kind)
    assert difference(left, right) is None


def test_repeated_rows_are_counted() -> None:
    assert "1 of Java's 2 rows are missing" in str(difference(relation([[1], [1]], "INT"), relation([[1]], "INT")))


def test_kinds_are_compared_if_both_have_them() -> None:
    left, right = relation([[1]], "INT", kinds=["+I"]), relation([[1]], "INT", kinds=["+U"])
    assert "kind: Java '+I', ours '+U'" in str(difference(left, right))


def test_minus_zero_is_not_zero_and_nan_is_nan() -> None:
    assert difference(relation([["-0.0"]], "DOUBLE"), relation([[0.0]], "DOUBLE")) is not None
    assert difference(relation([["NaN"]], "FLOAT"), relation([["nan"]], "FLOAT")) is None


def test_columns_count_with_their_order() -> None:
    assert "columns" in str(difference(relation([], "INT", "INT"), pa.table({"b": [1], "a": [2]})))


@pytest.mark.slow
def test_every_golden_table_unpacks_and_agrees_with_itself() -> None:
    assert len(case_names()) == 129
    for name in case_names():
        case = Case(name)
        assert len(case.snapshots) == len(case.expected["snapshots"])
        assert difference(case.latest, case.latest) is None
        assert case.table.is_dir()


@pytest.mark.parametrize("name", [name for name in case_names() if name != "types_variant"])
def test_golden_rows_survive_a_round_trip_through_arrow(name: str) -> None:
    latest = Case(name).latest
    columns = list(zip(latest.columns, latest.types, strict=True))
    assert difference(latest, arrow_rows(latest.rows, columns)) is None


def test_variant_is_compared_as_its_json() -> None:
    case = Case("types_variant")
    (file,) = case.table.glob("**/*.parquet")
    assert difference(case.latest, pq.ParquetFile(file).read()) is None
