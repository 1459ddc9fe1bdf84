"""Casts give what Java Paimon 1.3.1 gave, value by value; the exceptions are named here."""

from __future__ import annotations

import json
import math
import random
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.cast_numbers import decimals_of_floats
from penstock.table.values.cast_rules import CastFailed, can_cast
from penstock.table.values.casts import cast_array
from penstock.table.values.internal import from_internal, internal_values
from penstock.table.values.types import BIGINT, BYTES, INT, STRING, parse_type
from tests.unit.table.values.samples import internal

JAVA = json.loads((Path(__file__).resolve().parents[3] / "data" / "casts.json").read_text(encoding="utf-8"))
RULES = [(source, target, verdict) for source, target, verdict in JAVA["rules"]]
DAY = 86_400_000


def label(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)[:40]


@pytest.mark.parametrize("source", list(dict.fromkeys(label(rule[0]) for rule in RULES)))
def test_alter_allows_what_java_allows(source: str) -> None:
    for from_, to, verdict in RULES:
        if label(from_) == source:
            types = parse_type(from_), parse_type(to)
            assert can_cast(*types, explicit=False) == (verdict == "implicit"), (from_, to)
            assert can_cast(*types, explicit=True) == (verdict != "none"), (from_, to)


def test_nullability_and_type_parameters_are_not_casts() -> None:
    assert can_cast(parse_type("INT NOT NULL"), INT, explicit=False)
    assert can_cast(parse_type("CHAR(3)"), parse_type("CHAR(5)"), explicit=False)
    assert can_cast(parse_type("DECIMAL(5, 2)"), parse_type("DECIMAL(9, 4)"), explicit=False)
    assert not can_cast(parse_type({"type": "ARRAY", "element": "INT"}), INT, explicit=True)


def given(value: Any, type_: Any) -> object:
    """The internal value of a text of the recording."""
    if isinstance(type_, type(INT)):
        return internal(value, type_)
    if isinstance(value, dict):
        return tuple(value.values())
    return [tuple(item) if type_.__class__.__name__ == "MapType" else item for item in value]


def ours(source: str, target: str, value: Any, expected: Any) -> Any:
    """Return the correct value where Java's result cannot be stored or makes no sense."""
    if isinstance(expected, dict):
        return CastFailed
    if target.startswith("TIME(") and isinstance(expected, str):
        sign = -1 if "-" in expected else 1
        hours, minutes, seconds = expected.replace("-", "").split(":")
        whole, fraction = seconds.split(".")
        millis = sign * (((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1000 + int(fraction))
        if source == "STRING":
            return millis if 0 <= millis < DAY else CastFailed
        return millis % DAY  # Java's time of day before 1970 is negative
    if source.startswith("TIME(") and target == "TIMESTAMP(0)":
        return expected.partition(".")[0] + "." + "0" * 9  # Java leaves milliseconds in a type of seconds
    if target == "TIMESTAMP(9)" and source in {"DATE", "STRING"} and expected[:4] in {"0001", "9999"}:
        return CastFailed  # beyond 64 bits of nanoseconds
    if target == "TIMESTAMP(9) WITH LOCAL TIME ZONE" and expected[:4] in {"0001", "9999"}:
        return CastFailed
    if target == "DATE" and value == "20240506":
        return 20240506
    if target == "DATE" and value == "0000-01-01":
        return -719528
    return expected


@pytest.mark.parametrize("case", JAVA["values"], ids=lambda case: f"{label(case['from'])} to {label(case['to'])}")
def test_values_cast_as_java_casts_them(case: dict[str, Any]) -> None:
    source, target = parse_type(case["from"]), parse_type(case["to"])
    for value, java in case["values"]:
        column = from_internal([None, given(value, source), None], source)
        expected = ours(label(case["from"]), case["to"], value, java)
        if expected is CastFailed:
            with pytest.raises(CastFailed):
                cast_array(column, source, target)
            continue
        if isinstance(expected, str):
            expected = given(expected, target)
        got = cast_array(column.slice(1), source, target)
        assert got.type == to_arrow(target)
        result, null = internal_values(got, target)
        assert null is None
        assert equal(result, expected, target), (value, result, expected)


def equal(result: Any, expected: Any, type_: Any) -> bool:
    if isinstance(result, float) and expected is not None:
        code = "<f" if type_.root == "FLOAT" else "<d"
        both_nan = math.isnan(result) and math.isnan(float(expected))
        return both_nan or struct.pack(code, result) == struct.pack(code, float(expected))
    return bool(result == expected)


def test_members_of_a_row_are_found_by_id() -> None:
    source = parse_type(row_of((1, "a", "INT"), (2, "b", "STRING"), (3, "c", {"type": "ARRAY", "element": "INT"})))
    target = parse_type(
        row_of((4, "new", "DATE"), (3, "d", {"type": "ARRAY", "element": "BIGINT"}), (1, "e", "STRING"))
    )
    rows = [(1, "x", [1, None]), None, (None, "y", None), (2, "z", [])]
    got = cast_array(from_internal([None, *rows], source).slice(1), source, target)
    assert got.type == to_arrow(target)
    got.validate(full=True)
    assert internal_values(got, target) == [(None, [1, None], "1"), None, (None, None, None), (None, [], "2")]


def row_of(*fields: tuple[int, str, object]) -> dict[str, object]:
    return {"type": "ROW", "fields": [{"id": id_, "name": name, "type": type_} for id_, name, type_ in fields]}


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (
            {"type": "MAP", "key": "INT", "value": "INT"},
            {"type": "MAP", "key": "INT", "value": "STRING"},
            [[(1, 2)], None, [], [(3, None), (4, 5)]],
            [[(1, "2")], None, [], [(3, None), (4, "5")]],
        ),
        (
            {"type": "MULTISET", "element": "INT"},
            {"type": "MULTISET", "element": "BIGINT"},
            [[(1, 2)], None],
            [[(1, 2)], None],
        ),
        (
            {"type": "ARRAY", "element": row_of((1, "a", "INT"))},
            {"type": "ARRAY", "element": row_of((1, "a", "BIGINT"), (2, "b", "STRING"))},
            [[(1,)], None, [None, (2,)]],
            [[(1, None)], None, [None, (2, None)]],
        ),
    ],
    ids=["map", "multiset", "rows in an array"],
)
def test_inside_arrays_and_maps(source: Any, target: Any, values: list[Any], expected: list[Any]) -> None:
    old, new = parse_type(source), parse_type(target)
    for cut in range(len(values) + 1):
        got = cast_array(from_internal(values, old).slice(cut), old, new)
        got.validate(full=True)
        assert internal_values(got, new) == expected[cut:]


def test_local_time_depends_on_the_session_zone() -> None:
    wall, ltz = parse_type("TIMESTAMP(3)"), parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    column = pa.array([0], pa.timestamp("ms"))
    there = cast_array(column, wall, ltz, "Asia/Shanghai")
    assert internal_values(there, ltz) == [-8 * 3600 * 10**9]
    assert cast_array(there, ltz, wall, "Asia/Shanghai") == column
    assert cast_array(there, ltz, STRING, "Asia/Shanghai").to_pylist() == ["1970-01-01 00:00:00.000"]
    assert cast_array(pa.array(["1970-01-01"]), STRING, ltz, "Asia/Shanghai") == there
    assert internal_values(cast_array(there, ltz, parse_type("DATE"), "Asia/Shanghai"), parse_type("DATE")) == [0]


def test_times_that_clocks_show_twice_or_never_are_read_as_java_reads_them() -> None:
    wall, ltz, zone = parse_type("TIMESTAMP(0)"), parse_type("TIMESTAMP(0) WITH LOCAL TIME ZONE"), "Europe/Berlin"
    # Clocks skip 02:00 to 03:00 on 31 March, and show 02:00 to 03:00 twice on 27 October.
    texts = ["2024-03-31 01:59:59", "2024-03-31 02:30:00", None, "2024-03-31 03:00:00", "2024-10-27 02:30:00"]
    column = cast_array(pa.array(texts), STRING, wall)
    assert cast_array(cast_array(column, wall, ltz, zone), ltz, STRING).to_pylist() == [
        "2024-03-31 00:59:59",
        "2024-03-31 01:30:00",
        None,
        "2024-03-31 01:00:00",
        "2024-10-27 00:30:00",
    ]


def test_a_cast_ignores_values_under_nulls() -> None:
    hidden = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x01"), *pa.array(["12", "abc"]).buffers()[1:]])
    assert cast_array(hidden, STRING, BIGINT).to_pylist() == [12, None]


def test_an_invalid_number_is_reported_with_its_text_and_type() -> None:
    with pytest.raises(CastFailed, match="'abc' cannot be read as INT") as caught:
        cast_array(pa.array(["1", "abc"]), STRING, INT)
    assert caught.value.facts["value"] == "abc"
    assert "back to STRING" in str(caught.value)


def test_zero_with_a_large_exponent_is_zero() -> None:
    texts = pa.array(["0E50", "-0E60", "0E-99", "1E50"])
    cast = cast_array(texts, STRING, parse_type("DECIMAL(10, 2)"))
    assert [None if value is None else str(value) for value in cast.to_pylist()][:3] == ["0.00"] * 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\xe2\x82", "\ufffd"),
        (b"\xed\xa0\x80(", "\ufffd("),
        (b"\xed\xa0\xed\xbf\xbf\xed", "\ufffd" * 3),
        (b"\xed\xc0\x80", "\ufffd" * 3),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xff\xed\x9f\xbf", "\ufffd\ud7ff"),
    ],
)
def test_bytes_that_are_not_utf8_are_replaced_as_in_java(value: bytes, text: str) -> None:
    assert cast_array(pa.array([value, None]), BYTES, STRING).to_pylist() == [text, None]


@pytest.mark.parametrize(
    ("value", "target", "shown"),
    [
        (" 5", "DATE", "0005-01-01"),
        ("7 8", "DATE", "0007-01-01"),
        (" 5", "TIME(3)", "05:00:00"),
        ("1969-12-31 23:59:59.123456789", "TIMESTAMP(1)", "1969-12-31 23:59:59.100"),
        ("1969-12-31 23:59:59.123456789", "TIMESTAMP(5)", "1969-12-31 23:59:59.123450"),
        ("1969-12-31 23:59:59.123456789", "TIMESTAMP(8)", "1969-12-31 23:59:59.123456780"),
        ("1969-12-31 23:59:59.123456789", "TIMESTAMP(2) WITH LOCAL TIME ZONE", "1969-12-31 23:59:59.120Z"),
    ],
)
def test_texts_of_odd_forms_are_parsed_as_in_java(value: str, target: str, shown: str) -> None:
    assert str(cast_array(pa.array([value]), STRING, parse_type(target)).cast(pa.string())[0]).startswith(shown)


@pytest.mark.parametrize(
    ("value", "shown"), [(5e-324, "4.9E-324"), (2e-323, "2.0E-323"), (1e22, "1.0E22"), (0.0, "0.0")]
)
def test_the_smallest_doubles_have_two_digits(value: float, shown: str) -> None:
    assert cast_array(pa.array([value]), parse_type("DOUBLE"), STRING).to_pylist() == [shown]
    assert cast_array(pa.array([1e-44], pa.float32()), parse_type("FLOAT"), STRING).to_pylist() == ["9.8E-45"]


@pytest.mark.parametrize("scale", [0, 1, 2, 5, 18])
def test_doubles_are_rounded_half_up_from_their_shortest_text(scale: int) -> None:
    chance = random.Random(scale)
    near = [round(chance.uniform(-1000, 1000), scale) + chance.choice([0.5, -0.5]) * 10**-scale for _ in range(300)]
    values = [*near, 0.35, 0.25, -0.25, 2.5, 1.005, 8.65, 0.0, -0.0, 1e-9, 123456.789, 2.0**40 + 0.5, None]
    target = pa.decimal128(38, scale)
    got = decimals_of_floats(pa.array([0.5, *values], pa.float64()).slice(1), target)
    step = Decimal(1).scaleb(-scale)
    assert got.to_pylist() == [
        None if value is None else Decimal(repr(value)).quantize(step, ROUND_HALF_UP, Context(80)) for value in values
    ]


@pytest.mark.parametrize("precision", [1, 3, 15, 17, 20, 37, 38])
def test_doubles_next_to_a_half_and_to_the_limit_become_the_closest_decimals(precision: int) -> None:
    for scale in range(precision + 1):
        step, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)
        values = [-5e-324, *(float(limit - step / 2) * (1 - steps * 2**-53) for steps in range(6))]
        values += [math.nextafter(float(step / 2), toward) for toward in (0, 0.5, 1)]
        rounded = [Decimal(repr(value)).quantize(step, ROUND_HALF_UP, Context(80)) for value in values]
        fitting = [(value, decimal) for value, decimal in zip(values, rounded, strict=True) if abs(decimal) < limit]
        got = decimals_of_floats(pa.array([value for value, _ in fitting]), pa.decimal128(precision, scale))
        assert got.to_pylist() == [decimal for _, decimal in fitting]


@pytest.mark.parametrize("value", [99.95, 1e30, float("nan"), float("inf")])
def test_doubles_with_too_many_digits_before_the_point_are_no_decimals(value: float) -> None:
    with pytest.raises(pa.ArrowInvalid):
        decimals_of_floats(pa.array([1.0, value]), pa.decimal128(3, 1))
