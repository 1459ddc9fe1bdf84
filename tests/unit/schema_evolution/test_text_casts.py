"""Texts of messages as values: what fits, what is cut, what is null by rule, what is bad."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.values.types import Field, parse_type


def fitted(texts: list[str | None], type_text: str, mapping: TypeMapping | None = None) -> tuple[list[object], Misfits]:
    misfits = Misfits()
    column = fit_column(
        pa.array(texts, pa.string()), Field(0, "c", parse_type(type_text)), mapping or TypeMapping(), misfits
    )
    return column.to_pylist(), misfits


FITTING = [
    ("INT", "12", 12),
    ("INT", " 12 ", 12),
    ("BIGINT", "-9223372036854775808", -(2**63)),
    ("DECIMAL(10, 2)", "1.5", Decimal("1.50")),
    ("DECIMAL(10, 2)", "1.005", Decimal("1.01")),
    ("DECIMAL(20, 0)", "18446744073709551615", Decimal(18446744073709551615)),
    ("DOUBLE", "1.0E10", 1.0e10),
    ("DOUBLE", "-Infinity", -math.inf),
    ("FLOAT", "inf", math.inf),
    ("TIMESTAMP(3)", "2024-05-06 07", dt.datetime(2024, 5, 6, 7)),
    ("BOOLEAN", "1", True),
    ("BOOLEAN", "No", False),
    ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
    ("DATE", "2024-2-9", dt.date(2024, 2, 9)),
    ("DATE", "2024-02-29 10:00:00", dt.date(2024, 2, 29)),
    ("DATE", "19849", dt.date(2024, 5, 6)),
    ("TIME(0)", "23:59:59.5", dt.time(23, 59, 59, 500000)),
    ("TIMESTAMP(0)", "2024-05-06 07:08:09", dt.datetime(2024, 5, 6, 7, 8, 9)),
    ("TIMESTAMP(0)", "2024-05-06 07:08:09.999", dt.datetime(2024, 5, 6, 7, 8, 9)),
    ("TIMESTAMP(3)", "1969-12-31 23:59:59.9999", dt.datetime(1969, 12, 31, 23, 59, 59, 999000)),
    ("TIMESTAMP(6)", "2024-05-06T07:08", dt.datetime(2024, 5, 6, 7, 8)),
    ("TIMESTAMP(2)", "2024-05-06 07:08:09.129", dt.datetime(2024, 5, 6, 7, 8, 9, 120000)),
    ("TIMESTAMP(3)", "1714979289123", dt.datetime(2024, 5, 6, 7, 8, 9, 123000)),
    ("VARCHAR(3)", "中文字", "中文字"),
    ("BINARY(2)", "bmk=", b"ni"),
    ("BYTES", "bmk=", b"bmk="),
    ("VARBINARY(3)", "\u20ac", b"\xe2\x82\xac"),
]


@pytest.mark.parametrize(("type_text", "text", "value"), FITTING)
def test_text_fits(type_text: str, text: str, value: object) -> None:
    values, misfits = fitted([text, None], type_text)
    assert values == [value, None]
    assert not misfits.reasons


BAD = [
    ("INT", "1.0"),
    ("INT", "abc"),
    ("TINYINT", "300"),
    ("DECIMAL(4, 2)", "123.45"),
    ("DECIMAL(38, 18)", "440000000000000000000"),
    ("DECIMAL(38, 38)", "10"),
    ("BOOLEAN", "maybe"),
    ("DATE", "2023-02-30"),
    ("TIMESTAMP(3)", "2023-01-01 10:00:60"),
    ("VARCHAR(2)", "abc"),
    ("TIME(0)", "12:61:00"),
    ("TIME(0)", "3723000000"),
    ("TIME(3)", "86400000"),
    ("TIME(3)", "-1"),
    ("BINARY(9)", "not base64!"),
    ("VARBINARY(2)", "\u20ac"),
    ("DOUBLE", "1e400"),
    ("DOUBLE", "-1e400"),
    ("DOUBLE", "1_0"),
    ("FLOAT", "1e400"),
    ("FLOAT", "1e39"),
    ("TINYINT", "0xFF"),
    ("INT", "0x10"),
    ("BIGINT", "0xFFFFFFFFFFFFFFFF"),
    ("DECIMAL(10, 2)", "1_0"),
]


@pytest.mark.parametrize(("type_text", "text"), BAD)
def test_text_that_does_not_fit_is_named_and_leaves_the_others(type_text: str, text: str) -> None:
    values, misfits = fitted([None, text], type_text)
    assert values == [None, None]
    assert list(misfits.reasons) == [1]
    assert text in misfits.reasons[1]


@pytest.mark.parametrize(
    ("type_text", "text"), [("DATE", "0000-00-00"), ("TIMESTAMP(0)", "2023-00-10 00:00:00"), ("TIME(0)", "-01:00:00")]
)
def test_values_outside_of_the_calendar_are_null_by_rule(type_text: str, text: str) -> None:
    values, misfits = fitted([text], type_text)
    assert values == [None]
    assert misfits.nulled == 1
    assert not misfits.reasons
    _, strict = fitted([text], type_text, TypeMapping(zero_date_error=True))
    assert list(strict.reasons) == [0]


def test_elements_of_lists_follow_the_rules_of_columns() -> None:
    noon = dt.time(12, 0, 0, 123000)
    lists = [[dt.time(12, 0, 0, 123456), None], None, [], [noon]]
    column = pa.array([[dt.time(1)], *lists], pa.list_(pa.time64("us"))).slice(1)
    misfits = Misfits()
    values = fit_column(
        column, Field(0, "c", parse_type({"type": "ARRAY", "element": "TIME(3)"})), TypeMapping(), misfits
    )
    assert values.to_pylist() == [[noon, None], None, [], [noon]]
    assert (misfits.inexact, misfits.reasons) == (1, {})
    decimals = [[Decimal("1.25"), None], [Decimal(100)], None]
    column = pa.array(decimals, pa.list_(pa.decimal128(6, 2)))
    values = fit_column(
        column, Field(0, "c", parse_type({"type": "ARRAY", "element": "DECIMAL(3, 1)"})), TypeMapping(), misfits
    )
    assert values.to_pylist() == [[Decimal("1.3"), None], None, None]
    assert list(misfits.reasons) == [1], "only the list with the element that does not fit"


def test_a_decimal_without_a_fraction_fits_an_integer_beside_others_that_do_not_fit() -> None:
    column = pa.array([Decimal("2.00"), Decimal("2.50"), None, Decimal("-10.00"), Decimal("99999999999.00")])
    misfits = Misfits()
    values = fit_column(column, Field(0, "c", parse_type("INT")), TypeMapping(), misfits)
    assert values.to_pylist() == [2, None, None, -10, None]
    assert list(misfits.reasons) == [1, 4]


def test_elements_below_a_null_list_do_not_shift_those_that_do_not_fit() -> None:
    # As if_else and other functions of Arrow make them: a null list whose elements are still in the buffer.
    texts = pa.array(["1", "x", "2", "x"])
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2, 4], pa.int32()), texts, mask=pa.array([True, False, False]))
    misfits = Misfits()
    values = fit_column(column, Field(0, "c", parse_type({"type": "ARRAY", "element": "INT"})), TypeMapping(), misfits)
    assert values.to_pylist() == [None, None, None]
    assert list(misfits.reasons) == [1, 2]


def test_lists_are_read_from_json_or_commas() -> None:
    misfits = Misfits()
    column = fit_column(
        pa.array(['["a","b"]', "a,b", "[]", ""]),
        Field(0, "c", parse_type({"type": "ARRAY", "element": "STRING"})),
        TypeMapping(),
        misfits,
    )
    assert column.to_pylist() == [["a", "b"], ["a", "b"], [], []]


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([b"\xc3\xa9", b"\xff\x00\xfe", None]), ["é", "\ufffd\x00\ufffd", None]),
        (pa.array([["a", "b"], [], None]), ["a,b", "", None]),
        (pa.array([[1, None], None]), ["[1,null]", None]),
        (pa.array([{"a": b"x", "b": [dt.date(2024, 5, 6)]}, None]), ['{"a":"x","b":["2024-05-06"]}', None]),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())), ['{"k":1}', None]),
    ],
)
def test_native_values_of_any_kind_have_a_text(column: pa.Array, texts: list[str | None]) -> None:
    misfits = Misfits()
    found = fit_column(column, Field(0, "c", parse_type("STRING")), TypeMapping(), misfits)
    assert (found.to_pylist(), misfits.reasons) == (texts, {})


@pytest.mark.parametrize(
    ("type_text", "text", "value"),
    [
        ("DATE NOT NULL", "0000-00-00", dt.date(1970, 1, 1)),
        ("TIMESTAMP(3) NOT NULL", "2023-00-10 00:00:00", dt.datetime(1970, 1, 1)),
        ("TIME(0) NOT NULL", "25:00:00", dt.time(0)),
    ],
)
def test_in_not_null_columns_they_are_the_epoch_or_midnight(type_text: str, text: str, value: object) -> None:
    good = {"DATE": "2024-05-06", "TIME": "10:00:00", "TIMESTAMP": "2024-05-06 07:08:09"}[
        type_text.split("(")[0].split()[0]
    ]
    values, misfits = fitted([text, good, text], type_text)
    assert (values[0], values[2], misfits.nulled, misfits.reasons) == (value, value, 2, {})
    assert values[1] is not None
    assert values[1] != value


@pytest.mark.parametrize(
    ("type_text", "text", "option"),
    [
        ("DATE NOT NULL", "2023-00-10", "to-string"),
        ("TIMESTAMP(3) NOT NULL", "2023-00-10 00:00:00", "to-string"),
        ("TIME(0) NOT NULL", "25:00:00", "time-to-string"),
        ("TIME(0) NOT NULL", "-01:00:00", "time-to-string"),
        ("TIME(0) NOT NULL", "00:00:00.000001", "time-to-string"),
    ],
)
def test_in_a_key_they_are_not_replaced_and_the_hint_names_the_option(type_text: str, text: str, option: str) -> None:
    misfits = Misfits()
    fit_column(pa.array([text]), Field(0, "c", parse_type(type_text)), TypeMapping(), misfits, in_key=True)
    assert (list(misfits.reasons), misfits.nulled) == ([0], 0)
    assert f"--type-mapping {option} keeps" in misfits.reasons[0]


def test_only_the_zero_date_is_the_epoch_in_a_key() -> None:
    misfits = Misfits()
    target = Field(0, "c", parse_type("TIMESTAMP(0) NOT NULL"))
    found = fit_column(pa.array(["0000-00-00 00:00:00"]), target, TypeMapping(), misfits, in_key=True)
    assert (found.to_pylist(), misfits.reasons) == ([dt.datetime(1970, 1, 1)], {})


@pytest.mark.parametrize(("type_text", "text"), [("DATE", "0000-01-01"), ("TIMESTAMP(0)", "0000-12-31 23:59:59")])
def test_the_year_zero_is_a_zero_date_with_any_month_and_day(type_text: str, text: str) -> None:
    for others in ([], ["2024-05-06"], ["nonsense"]):
        values, misfits = fitted([text, *others], type_text)
        assert (values[0], misfits.nulled) == (None, 1)


@pytest.mark.parametrize(("nullable", "value"), [(True, None), (False, dt.time(0))])
def test_durations_outside_of_a_day_follow_the_same_rule(nullable: bool, value: object) -> None:
    given = pa.array([-1, 3_600_000_000, None if nullable else 1], pa.duration("us"))
    target = Field(0, "c", parse_type("TIME(0)" if nullable else "TIME(0) NOT NULL"))
    misfits = Misfits()
    found = fit_column(given, target, TypeMapping(), misfits).to_pylist()
    assert (found[:2], misfits.nulled, misfits.reasons) == ([value, dt.time(1)], 1, {})
    strict = Misfits()
    fit_column(given, target, TypeMapping(zero_date_error=True), strict)
    assert list(strict.reasons) == [0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9" * 38, Decimal("9" * 38)),
        ("9" * 39, None),
        ("1" + "0" * 59, None),
        ("9" * 300, None),
        ("-1E-999999999", Decimal(0)),
        ("1E999999999", None),
        ("1E3", Decimal(1000)),
        ("0." + "3" * 60, Decimal(0)),
    ],
)
def test_decimals_of_any_length_and_exponent_are_exact_or_do_not_fit(text: str, value: Decimal | None) -> None:
    for others in ([], ["12"], ["x", None]):
        values, misfits = fitted([text, *others], "DECIMAL(38, 0)")
        assert values[0] == value
        assert (0 in misfits.reasons) == (value is None)


@pytest.mark.parametrize(
    ("type_text", "text"),
    [
        ("DATE", "9" * 19),
        ("DATE", "1" * 400),
        ("TIMESTAMP(0)", "9" * 19),
        ("TIMESTAMP(3)", "-" + "9" * 18),
        ("TIMESTAMP(9)", "9999-12-31 00:00:00"),
        ("TIME(0)", "9" * 400 + "x"),
    ],
)
def test_timestamps_outside_of_the_calendar_do_not_fit(type_text: str, text: str) -> None:
    values, misfits = fitted([text, None], type_text)
    assert values == [None, None]
    assert list(misfits.reasons) == [0]


def test_a_text_that_is_not_a_number_is_reported_without_class_names() -> None:
    misfits = Misfits()
    fit_column(pa.array(["12x"]), Field(0, "v", parse_type("DECIMAL(10, 2)")), TypeMapping(), misfits)
    reasons = " ".join(misfits.reasons.values())
    assert "12x" in reasons
    assert "not a number" in reasons
    assert "class" not in reasons


PARTS = [
    *("0", "1", "9", "12", "128", "99999999", "-", "+", ".", "e", "1e400", "0x", "F", "inf", "nan", " ", "_", ":"),
    *("2024-02-29", "2024", "0000", "02", "30", "23:59:59", "24", "60", "T", "Z", "+05:00", ".5", ".123456789", "t"),
]
DAYS, CLOCKS = (
    ["2024-02-29", "0001-01-01", "1969-12-31", "2300-01-01", "2024-2-9"],
    ["23:59:59", "10:00", "10", "1:2:3"],
)
FRACTIONS, ZONES = ["", ".", ".5", ".123456", ".1234567", ".1234567891"], ["", "", "Z", "+00:00"]


def odd_text(dice: random.Random) -> str:
    if dice.random() < 0.6:
        return "".join(dice.choice(PARTS) for _ in range(dice.randint(1, 5)))
    clock = f"{dice.choice('T ')}{dice.choice(CLOCKS)}{dice.choice(FRACTIONS)}{dice.choice(ZONES)}"
    return f"{dice.choice(DAYS)}{clock}"


@pytest.mark.parametrize("in_key", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "type_text",
    [
        *("TINYINT", "INT", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL(10, 2)", "DECIMAL(38, 10)", "BOOLEAN", "DATE"),
        *("TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ],
)
def test_a_text_is_the_same_value_beside_every_other_text(type_text: str, in_key: bool) -> None:
    """A column is cast as a whole only if each of its texts has the usual form, and text by text otherwise."""
    target, dice = Field(0, "c", parse_type(type_text)), random.Random(type_text)

    def cast(*texts: str) -> tuple[str, bool, int, int]:
        misfits = Misfits()
        column = fit_column(pa.array(texts, pa.string()), target, TypeMapping(), misfits, in_key=in_key)
        return repr(column[:1].to_string()), 0 in misfits.reasons, misfits.inexact, misfits.nulled

    for _ in range(400):
        text = odd_text(dice)
        assert cast(text) == cast(text, "of no type"), text


@pytest.mark.parametrize(
    ("micros", "value"),
    [
        ("0", dt.time(0)),
        ("5000000", dt.time(0, 0, 5)),
        ("86399999", dt.time(0, 1, 26, 399_000)),
        ("45296789000", dt.time(12, 34, 56, 789_000)),
        ("86399999999", dt.time(23, 59, 59, 999_000)),
        ("12:34:56", dt.time(12, 34, 56)),
    ],
)
def test_numbers_of_a_time_are_microseconds_with_the_option(micros: str, value: dt.time) -> None:
    values, misfits = fitted([micros], "TIME(3)", TypeMapping.of(["time-micros"]))
    assert (values, misfits.reasons) == ([value], {})
    assert misfits.inexact == int(micros.endswith("999"))


@pytest.mark.parametrize("micros", ["-1", "-5000000", "86400000000", "3020399000000"])
def test_microseconds_outside_of_a_day_follow_the_rule_of_durations(micros: str) -> None:
    values, misfits = fitted([micros], "TIME(3)", TypeMapping.of(["time-micros"]))
    assert (values, misfits.nulled, misfits.reasons) == ([None], 1, {})
    _, strict = fitted([micros], "TIME(3)", TypeMapping.of(["time-micros", "zero-date-error"]))
    assert list(strict.reasons) == [0]


def test_a_number_longer_than_a_day_names_the_option() -> None:
    _, misfits = fitted(["86400000"], "TIME(3)")
    assert "--type-mapping time-micros" in misfits.reasons[0]
    values, _ = fitted(["86399999"], "TIME(3)")
    assert values == [dt.time(23, 59, 59, 999_000)]
