"""Computed columns, function by function."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.schema_evolution.computed import ComputedColumn, in_order
from penstock.schema_evolution.functions import Columns
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


def test_types_follow_the_function() -> None:
    types = COLUMNS.types
    assert type_json(ComputedColumn.of("c=truncate(price,10)").type(types)) == "DECIMAL(4, 2)"
    assert type_json(ComputedColumn.of("c=year(ts)").type(types)) == "INT"
    assert type_json(ComputedColumn.of("c=now()").type(types)) == "TIMESTAMP(3)"


def test_a_table_without_the_column_gets_null() -> None:
    column = ComputedColumn.of("c=date_format(gone,yyyyMMdd)")
    assert column.values(COLUMNS, 2).to_pylist() == [None, None]
    assert type_json(column.type(COLUMNS.types, lenient=True)) == "STRING"
    with pytest.raises(ConfigError, match="Referenced field 'gone' is not in given fields"):
        column.type(COLUMNS.types)


def test_columns_come_after_those_they_refer_to() -> None:
    texts = ["A=upper(B)", "B=upper(x)", "C=upper(y)", "D=upper(A)", "E=upper(C)"]
    assert [one.name for one in in_order([ComputedColumn.of(text) for text in texts])] == ["B", "A", "C", "D", "E"]


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ConfigError, match="Cycle detected"):
        in_order([ComputedColumn.of("A=upper(B)"), ComputedColumn.of("B=upper(A)")])


@pytest.mark.parametrize("text", ["dt", "dt=", "=year(x)", "dt=frob(x)", "dt=year()", "dt=year(x)y", "dt=truncate(x)"])
def test_what_is_no_computed_column_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        ComputedColumn.of(text)
