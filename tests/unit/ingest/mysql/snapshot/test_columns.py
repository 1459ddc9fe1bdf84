"""Text cells of a snapshot, read a whole column at a time, against Python's own reading of the same texts."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.byte_buffers import gathered_rows
from penstock.ingest.database.buffers import SPARE
from penstock.ingest.database.cells import Cells
from penstock.ingest.mysql.definition import MySqlColumn, parse_type
from penstock.ingest.mysql.snapshot.columns import column_of
from penstock.ingest.mysql.snapshot.text_rows import HEAD
from penstock.ingest.mysql.values.rules import CellContext, ValueRules

BUFFER = 64  # a block of the wire is longer than this


def read(kind: str, texts: list[str | None], between: bytes = b"9-:. ", **rules: str) -> pa.Array:
    """Return the column of these cells; other bytes stand between them, as the cells of other columns do."""
    data, start, length = bytearray(between), [], []
    for text in texts:
        cell = (text or "").encode()
        start.append(len(data))
        length.append(len(cell))
        data += cell + between * (text is not None)
    room = bytes([ord("7")]) * max(SPARE, BUFFER - len(data))
    buffer = np.frombuffer(bytes(data.removesuffix(between) + room), np.uint8)
    null = np.array([text is None for text in texts], np.bool_)
    context = CellContext(MySqlColumn("c", parse_type(kind), True), "d.t", ValueRules(**rules))  # type: ignore[arg-type]
    cells = Cells(buffer, np.array(start, np.int64), np.array(length, np.int64), null)
    found = column_of(cells, context)
    # As in a block of rows, where the first bytes of cells are fetched with their lengths.
    whole = column_of(replace(cells, head=gathered_rows(buffer, cells.start, HEAD)), context)
    assert whole.equals(found) or pa.types.is_floating(found.type)  # NaN is not equal
    return found


def cells_of(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(st.none() | values, min_size=1, max_size=20)


def texts_of(values: list[object]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


@given(cells_of(st.integers(-(2**63), 2**63 - 1)))
def test_signed_numbers(values: list[object]) -> None:
    assert read("bigint", texts_of(values)).to_pylist() == values


@given(cells_of(st.integers(0, 2**64 - 1)))
def test_unsigned_numbers(values: list[object]) -> None:
    assert read("bigint unsigned", texts_of(values)).to_pylist() == values


@given(cells_of(st.integers(-(10**7), 10**7)))
def test_short_numbers(values: list[object]) -> None:
    assert read("int", texts_of(values)).to_pylist() == values


@given(cells_of(st.decimals(Decimal(-(10**16)), Decimal(10**16), places=2)))
def test_decimals(values: list[object]) -> None:
    assert read("decimal(18,2)", texts_of(values)).to_pylist() == values


@given(cells_of(st.dates()))
def test_dates(values: list[object]) -> None:
    assert read("date", texts_of(values)).to_pylist() == values


@pytest.mark.slow
def test_every_day_of_two_eras() -> None:
    days = [dt.date(1601, 1, 1) + dt.timedelta(days=n) for n in range(800 * 366)]
    assert read("date", [str(day) for day in days]).to_pylist() == days


IMPOSSIBLE = [
    "0000-00-00",
    "2024-00-10",
    "2024-02-00",
    "2023-02-29",
    "1900-02-29",
    "2024-13-01",
    "2024-99-99",
    "0000-01-01",
]


def test_dates_that_do_not_exist_are_null() -> None:
    found = read("date", [*IMPOSSIBLE, "2024-02-29", "2000-02-29", None])
    assert found.to_pylist() == [None] * len(IMPOSSIBLE) + [dt.date(2024, 2, 29), dt.date(2000, 2, 29), None]


@pytest.mark.parametrize("digits", range(7))
@given(data=st.data())
def test_times_of_a_day(digits: int, data: st.DataObject) -> None:
    step = 10 ** (6 - digits)
    moments = cells_of(
        st.datetimes(dt.datetime(1, 1, 1)).map(lambda m: m.replace(microsecond=m.microsecond // step * step))
    )
    values: list[Any] = data.draw(moments)
    texts = [
        None if m is None else m.strftime("%H:%M:%S") + f".{m.microsecond:06}"[: digits + 1 if digits else 0]
        for m in values
    ]
    kind = f"({digits})" if digits else ""
    assert read(f"time{kind}", texts).to_pylist() == [m and m.time() for m in values]
    dates = [None if m is None else f"{m.date()} {text}" for m, text in zip(values, texts, strict=True)]
    assert read(f"datetime{kind}", dates).to_pylist() == values


def test_hours_beyond_a_day_and_below_zero_are_texts_if_configured() -> None:
    texts = ["838:59:59", "-838:59:59", "-00:00:01", "00:00:00", None, "100:00:01"]
    assert read("time", texts, time="text").to_pylist() == texts


@given(cells_of(st.text(max_size=40)))
def test_texts_of_every_length(values: list[object]) -> None:
    assert read("text", texts_of(values)).to_pylist() == values
    assert read("blob", texts_of(values)).to_pylist() == [None if v is None else str(v).encode() for v in values]


@given(cells_of(st.floats(allow_nan=False, allow_infinity=False)))
def test_doubles(values: list[object]) -> None:
    assert read("double", [None if v is None else repr(v) for v in values]).to_pylist() == values
