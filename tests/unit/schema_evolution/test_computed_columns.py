"""Computed columns, function by function."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.schema_evolution.computed_arguments import Columns
from penstock.schema_evolution.computed_columns import ComputedColumn, in_order
from penstock.schema_evolution.computed_times import wall_clock
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import parse_type, type_json

MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 123000)
COLUMNS = Columns(
    {
        "ts": pa.array([MOMENT, None], pa.timestamp("ms")),
        "day": pa.array([MOMENT.date(), None], pa.date32()),
        "epoch": pa.array([1714979289, None], pa.int64()),
        "text": pa.array(["2024-05-06 07:08:09", None]),
        "name": pa.array(["  Ada ", None]),
        "n": pa.array([-1, None], pa.int32()),
        "price": pa.array([Decimal("-0.05"), None], pa.decimal128(4, 2)),
    },
    {
        "ts": parse_type("TIMESTAMP(3)"),
        "day": parse_type("DATE"),
        "epoch": parse_type("BIGINT"),
        "text": parse_type("STRING"),
        "name": parse_type("STRING"),
        "n": parse_type("INT"),
        "price": parse_type("DECIMAL(4, 2)"),
    },
    now_millis=1714979289123,
)

CASES = [
    ("year(ts)", 2024),
    ("month(day)", 5),
    ("hour(day)", 0),
    ("hour(epoch)", 7),
    ("minute(text)", 8),
    ("second(ts)", 9),
    ("date_format(ts,yyyyMMdd)", "20240506"),
    ("date_format(ts,yyyy-MM-dd HH:mm)", "2024-05-06 07:08"),
    ("date_format(ts,yyyy-MM-dd'T'HH:mm:ss.SSS)", "2024-05-06T07:08:09.123"),
    ("date_format(epoch,E d MMM yy,0)", "Mon 6 May 24"),
    ("substring(text,0,4)", "2024"),
    ("substring(text,30)", ""),
    ("truncate(n,10)", -10),
    ("truncate(price,10)", Decimal("-0.10")),
    ("truncate(text,4)", "2024"),
    ("upper(name)", "  ADA "),
    ("trim(name)", "Ada"),
    ("concat(n,'-',name)", "-1-  Ada "),
    ("coalesce(n)", -1),
]


@pytest.mark.parametrize(("expression", "value"), CASES)
def test_function(expression: str, value: object) -> None:
    assert ComputedColumn.of(f"c={expression}").values(COLUMNS, 2).to_pylist() == [value, None]


def test_constants_and_the_clock_fill_every_row() -> None:
    assert ComputedColumn.of("c=cast(7,INT)").values(COLUMNS, 2).to_pylist() == [7, 7]
    assert ComputedColumn.of("c=cast(1.5,DECIMAL(10, 2))").values(COLUMNS, 2).to_pylist() == [Decimal("1.50")] * 2
    assert ComputedColumn.of("c=now()").values(COLUMNS, 2).to_pylist() == [MOMENT, MOMENT]


def test_now_shows_the_clock_of_a_zone() -> None:
    summer, winter = 1720000000123, 1704067200000
    assert wall_clock(summer, "UTC") == summer
    assert wall_clock(summer, "Asia/Shanghai") == summer + 8 * 3_600_000
    assert [wall_clock(item, "Europe/Berlin") - item for item in (summer, winter)] == [7_200_000, 3_600_000]


def test_types_follow_the_function() -> None:
    types = COLUMNS.types
    assert type_json(ComputedColumn.of("c=truncate(price,10)").type(types)) == "DECIMAL(4, 2)"
    assert type_json(ComputedColumn.of("c=year(ts)").type(types)) == "INT"
    assert type_json(ComputedColumn.of("c=now()").type(types)) == "TIMESTAMP(3)"


def misfits_of(expression: str, values: list[object], type_: str) -> tuple[list[object], dict[int, str]]:
    parsed = parse_type(type_)
    columns = Columns({"c": pa.array(values, to_arrow(parsed))}, {"c": parsed})
    found = ComputedColumn.of(f"x={expression}").values(columns, len(values)).to_pylist()
    return found, columns.misfits.reasons


@pytest.mark.parametrize(
    ("expression", "values", "type_", "expected"),
    [
        ("year(c)", ["2024-05-06", "yesterday", None], "STRING", [2024, None, None]),
        ("date_format(c,yyyy)", ["2024-05-06", "", None], "STRING", ["2024", None, None]),
        ("year(c,3)", ["1714979289123", "1.5", None], "STRING", [2024, None, None]),
        ("year(c)", [1714979289, 1714979289123, None], "BIGINT", [2024, None, None]),
        ("date_format(c,E)", [1714979289, 1714979289123, None], "BIGINT", ["Mon", None, None]),
        ("date_format(c,yyyy)", [1714979289, -(1 << 62), None], "BIGINT", ["2024", None, None]),
        ("truncate(c,10)", [-128 + 8, -128, None], "TINYINT", [-120, None, None]),
        ("truncate(c,10)", [5, -(1 << 63), None], "BIGINT", [0, None, None]),
        ("truncate(c,10)", [Decimal("9.99"), Decimal("-9.99"), None], "DECIMAL(3, 2)", [Decimal("9.90"), None, None]),
        ("coalesce(c,'x')", [1, None, None], "INT", [1, None, None]),
    ],
)
def test_invalid_arguments_of_a_function_are_misfits_and_not_nulls(
    expression: str, values: list[object], type_: str, expected: list[object]
) -> None:
    found, reasons = misfits_of(expression, values, type_)
    assert found == expected
    assert set(reasons) == ({1, 2} if "coalesce" in expression else {1})


def test_unused_arguments_of_coalesce_need_not_fit() -> None:
    columns = Columns(
        {"a": pa.array([1, None], pa.int32()), "b": pa.array(["x", "7"])},
        {"a": parse_type("INT"), "b": parse_type("STRING")},
    )
    assert ComputedColumn.of("x=coalesce(a,b)").values(columns, 2).to_pylist() == [1, 7]
    assert columns.misfits.reasons == {}


def test_decimals_of_all_digits_are_truncated() -> None:
    value = Decimal("1234567890123456789012345678.1234567899")
    found, reasons = misfits_of("truncate(c,10)", [value, value.copy_negate()], "DECIMAL(38, 10)")
    assert found == [
        Decimal("1234567890123456789012345678.1234567890"),
        Decimal("-1234567890123456789012345678.1234567900"),
    ]
    assert reasons == {}


def test_a_text_in_quotes_is_one_argument() -> None:
    assert ComputedColumn.of("c=concat(n, ', ' ,name,',')").values(COLUMNS, 2).to_pylist() == ["-1,   Ada ,", None]


@pytest.mark.parametrize(
    "expression",
    [
        "substring(c,-1)",
        "substring(c,3,3)",
        "substring(c,x)",
        "truncate(c,0)",
        "truncate(c,99999999999)",
        "truncate(c,x)",
        "year(c,1)",
        "date_format(c,yyyy,2)",
        "date_format(c,bb)",
        "date_format(c,yyyy'T)",
        "bucket(c,0)",
        "cast(abc,INT)",
        "cast(1,NOTHING)",
        "cast(1,ARRAY<INT>)",
        "upper('text')",
        "year('2024-05-06')",
    ],
)
def test_invalid_constant_arguments_are_refused_at_the_start(expression: str) -> None:
    with pytest.raises(ConfigError):
        ComputedColumn.of(f"x={expression}")


@pytest.mark.parametrize(
    ("expression", "type_"), [("upper(c)", "INT"), ("year(c)", "BOOLEAN"), ("truncate(c,1)", "DATE")]
)
def test_columns_of_an_unsuitable_type_are_refused_when_the_table_is_created(expression: str, type_: str) -> None:
    with pytest.raises(ConfigError):
        ComputedColumn.of(f"x={expression}").type({"c": parse_type(type_)})


def test_advice_for_a_column_that_is_no_text_converts_it() -> None:
    with pytest.raises(ConfigError, match="a string is needed") as caught:
        ComputedColumn.of("c=upper(n)").type({"n": parse_type("INT")})
    advised = ComputedColumn.of((caught.value.hint or "").rpartition(" ")[2])
    assert type_json(advised.type(COLUMNS.types)) == "STRING"
    assert advised.values(COLUMNS, 2).to_pylist() == ["-1", None]


def test_a_missing_source_column_results_in_null() -> None:
    column = ComputedColumn.of("c=date_format(gone,yyyyMMdd)")
    assert column.values(COLUMNS, 2).to_pylist() == [None, None]
    assert type_json(column.type(COLUMNS.types, lenient=True)) == "STRING"
    with pytest.raises(ConfigError, match="Referenced field 'gone' is not in given fields"):
        column.type(COLUMNS.types)


def test_columns_are_computed_after_those_they_refer_to() -> None:
    texts = ["A=upper(B)", "B=upper(x)", "C=upper(y)", "D=upper(A)", "E=upper(C)"]
    assert [item.name for item in in_order([ComputedColumn.of(text) for text in texts])] == ["B", "C", "A", "E", "D"]


def test_columns_that_refer_to_each_other_are_in_paimon_s_order() -> None:
    texts = [
        "_lower_of_upper=lower(_upper)",
        "_upper=upper(_value)",
        "_trim_lower=trim(_lower_of_upper)",
        "_constant=cast(11,INT)",
    ]
    ordered = [item.name for item in in_order([ComputedColumn.of(text) for text in texts])]
    assert ordered == ["_upper", "_constant", "_lower_of_upper", "_trim_lower"]


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ConfigError, match="Cycle detected"):
        in_order([ComputedColumn.of("A=upper(B)"), ComputedColumn.of("B=upper(A)")])


@pytest.mark.parametrize("text", ["dt", "dt=", "=year(x)", "dt=frob(x)", "dt=year()", "dt=year(x)y", "dt=truncate(x)"])
def test_invalid_computed_columns_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        ComputedColumn.of(text)
