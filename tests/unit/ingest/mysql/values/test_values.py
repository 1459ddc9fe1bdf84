"""The functions that both sources share, against Python's own arithmetic."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.byte_buffers import slices
from penstock.ingest.database.buffers import with_spare_bytes
from penstock.ingest.mysql.definition import MySqlColumn, MySqlType, parse_type
from penstock.ingest.mysql.errors import ValueOutOfRange
from penstock.ingest.mysql.server.charsets import CHARSETS
from penstock.ingest.mysql.values import temporal
from penstock.ingest.mysql.values.decimals import decimals, packed_size
from penstock.ingest.mysql.values.labels import bits, enum_labels, set_members
from penstock.ingest.mysql.values.rules import UNREADABLE, CellContext, ValueRules
from penstock.ingest.mysql.values.strings import decoded

DAY_US = 86_400_000_000


def cells(kind: str, *, nullable: bool = True, labels: tuple[str, ...] = (), **rules: str) -> CellContext:
    parsed = MySqlType(kind, labels=labels) if labels else parse_type(kind)
    return CellContext(MySqlColumn("c", parsed, nullable), "d.t", ValueRules(**rules))  # type: ignore[arg-type]


def no_nulls(count: int) -> np.ndarray:
    return np.zeros(count, np.bool_)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@given(st.lists(st.dates(), min_size=1))
def test_every_valid_date_survives_a_round_trip(days: list[dt.date]) -> None:
    parts = temporal.DateTimeParts.of_dates(
        *(numbers(*(getattr(d, name) for d in days)) for name in ("year", "month", "day"))
    )
    assert temporal.dates(parts, no_nulls(len(days)), cells("date")).to_pylist() == days


@given(st.lists(st.datetimes(dt.datetime(1970, 1, 1, 0, 0, 1), dt.datetime(2106, 1, 1)), min_size=1))
def test_every_instant_survives_a_round_trip(moments: list[dt.datetime]) -> None:
    seconds = [int((m - dt.datetime(1970, 1, 1)).total_seconds() // 1) for m in moments]
    parts = temporal.DateTimeParts.of_instants(numbers(*seconds), numbers(*(m.microsecond for m in moments)))
    found = temporal.datetimes(parts, no_nulls(len(moments)), cells("timestamp(6)"))
    assert found.type == pa.timestamp("us", "UTC")
    assert found.cast(pa.timestamp("us")).to_pylist() == moments


seconds_of_instants = st.tuples(st.integers(0, 2**32 - 1) | st.just(0), st.integers(0, 999_999) | st.just(0))


@given(st.lists(st.tuples(seconds_of_instants, st.booleans()), min_size=1), st.sampled_from(["null", "epoch", "text"]))
def test_instants_are_what_their_calendar_parts_are(found: list[tuple[tuple[int, int], bool]], rule: str) -> None:
    seconds, micro = numbers(*(second for (second, _), _ in found)), numbers(*(micro for (_, micro), _ in found))
    null = np.array([absent for _, absent in found])
    ours, by_parts = cells("timestamp(6)", zero_date=rule), cells("timestamp(6)", zero_date=rule)
    expected = temporal.datetimes(temporal.DateTimeParts.of_instants(seconds, micro), null, by_parts)
    assert temporal.instants(seconds, micro, null, ours).equals(expected)
    assert ours.oddities == by_parts.oddities


ODD_DATES = [(0, 0, 0), (2024, 0, 10), (2024, 2, 0), (2023, 2, 29), (2024, 13, 1), (2024, 4, 31), (0, 1, 1)]


def odd_dates() -> temporal.DateTimeParts:
    return temporal.DateTimeParts.of_dates(*(numbers(*column) for column in zip(*ODD_DATES, strict=True)))


def test_zero_and_impossible_dates_are_null_and_counted() -> None:
    of = cells("date")
    assert temporal.dates(odd_dates(), no_nulls(7), of).null_count == 7
    assert of.oddities == {"zero-date": 7}


def test_zero_dates_of_a_not_null_column_are_the_epoch() -> None:
    found = temporal.dates(odd_dates(), no_nulls(7), cells("date", nullable=False))
    assert found.to_pylist() == [dt.date(1970, 1, 1)] * 7


def test_zero_dates_stay_texts_if_configured() -> None:
    found = temporal.dates(odd_dates(), no_nulls(7), cells("date", zero_date="text"))
    assert found.to_pylist() == [f"{y:04}-{m:02}-{d:02}" for y, m, d in ODD_DATES]


def test_a_value_that_a_strict_rule_refuses_is_passed_as_text() -> None:
    strict = cells("date", zero_date="error")
    found = temporal.dates(odd_dates(), no_nulls(7), strict)
    assert found.to_pylist() == [f"{y:04}-{m:02}-{d:02}" for y, m, d in ODD_DATES]
    real = temporal.DateTimeParts.of_dates(numbers(2024), numbers(1), numbers(10))
    assert temporal.dates(real, no_nulls(1), strict).to_pylist() == [dt.date(2024, 1, 10)]


def test_invalid_dates_in_keys_are_texts_and_only_the_zero_date_is_the_epoch() -> None:
    key = replace(cells("date", nullable=False), in_key=True)
    assert temporal.dates(odd_dates(), no_nulls(7), key).type == pa.string()
    zero = temporal.DateTimeParts.of_dates(numbers(0, 2024), numbers(0, 1), numbers(0, 10))
    assert temporal.dates(zero, no_nulls(2), key).to_pylist() == [dt.date(1970, 1, 1), dt.date(2024, 1, 10)]


def test_an_instant_of_zero_seconds_with_a_fraction_is_not_a_zero_date() -> None:
    parts = temporal.DateTimeParts.of_instants(numbers(0, 0), numbers(0, 10))
    found = temporal.datetimes(parts, no_nulls(2), cells("timestamp(6)")).cast(pa.timestamp("us"))
    assert found.to_pylist() == [None, dt.datetime(1970, 1, 1, 0, 0, 0, 10)]


def test_times_outside_of_a_day_stay_different_in_keys() -> None:
    key = replace(cells("time", nullable=False), in_key=True)
    found = temporal.times(numbers(DAY_US, 2 * DAY_US), no_nulls(2), no_nulls(2), key)
    assert found.to_pylist() == ["24:00:00", "48:00:00"]
    assert temporal.times(numbers(1, 2), no_nulls(2), no_nulls(2), key).type == pa.time64("us")


def test_times_outside_of_a_day_are_null_and_counted_but_texts_keep_them() -> None:
    micros = numbers(0, DAY_US - 1, DAY_US, 838 * 3_600_000_000, 1)
    negative = np.array([False, False, False, False, True])
    of = cells("time(6)")
    assert temporal.times(micros, negative, no_nulls(5), of).to_pylist() == [
        dt.time(0),
        dt.time(23, 59, 59, 999_999),
        None,
        None,
        None,
    ]
    assert of.oddities == {"time-out-of-day": 3}
    assert temporal.times(micros, negative, no_nulls(5), cells("time(6)", time="text")).to_pylist() == [
        "00:00:00.000000",
        "23:59:59.999999",
        "24:00:00.000000",
        "838:00:00.000000",
        "-00:00:00.000001",
    ]
    assert temporal.times(micros, negative, no_nulls(5), cells("time(6)", time="error")).type == pa.string()


def packed(value: Decimal, precision: int, scale: int) -> bytes:
    """The server's packing, digit by digit."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)) + "0" * (exponent + scale)
    text = text.rjust(precision, "0")
    whole, part = text[: precision - scale], text[precision - scale :]
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    groups = [whole[: len(whole) % 9]] + [whole[i : i + 9] for i in range(len(whole) % 9, len(whole), 9)]
    groups += [part[i : i + 9] for i in range(0, len(part), 9)]
    raw = bytearray(b"".join(int(g).to_bytes(sizes[len(g)], "big") for g in groups if g))
    raw[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in raw) if sign else bytes(raw)


@st.composite
def decimal_columns(draw: st.DrawFn) -> tuple[int, int, list[Decimal]]:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 30)))
    limit = 10**precision - 1
    unscaled = draw(st.lists(st.integers(-limit, limit) | st.sampled_from([0, limit, -limit, 1, -1]), min_size=1))
    return precision, scale, [Decimal((int(u < 0), tuple(map(int, str(abs(u)))), -scale)) for u in unscaled]


@given(decimal_columns())
def test_decimals_unpack_exactly_at_every_precision(column: tuple[int, int, list[Decimal]]) -> None:
    precision, scale, values = column
    width = packed_size(precision, scale)
    data = with_spare_bytes(b"".join(packed(value, precision, scale) for value in values))
    start = np.arange(len(values), dtype=np.int64) * width
    found = decimals(data, start, no_nulls(len(values)), precision, scale).to_pylist()
    if precision > 38:
        assert found == [f"{value:f}" for value in values]
    else:
        assert found == values


def test_too_many_digits_are_refused_unless_the_cell_is_null() -> None:
    data = with_spare_bytes(b"\xff" + packed(Decimal(7), 2, 0))
    null = np.array([True, False])
    assert decimals(data, numbers(0, 1), null, 2, 0).to_pylist() == [None, Decimal(7)]
    with pytest.raises(ValueError, match="too many digits"):
        decimals(data, numbers(0, 1), no_nulls(2), 2, 0)


def test_enum_counts_from_one_and_zero_is_the_empty_text() -> None:
    of = cells("enum", labels=("a", "b"))
    assert enum_labels(numbers(1, 2, 0, 1), np.array([False, False, False, True]), of).to_pylist() == [
        "a",
        "b",
        "",
        None,
    ]
    with pytest.raises(ValueOutOfRange):
        enum_labels(numbers(3), no_nulls(1), of)


def test_a_set_has_a_bit_per_label_and_no_bit_is_the_empty_list() -> None:
    of = cells("set", labels=tuple(f"l{place}" for place in range(64)))
    masks = np.array([0, 1, 1 << 63, 5], np.uint64)
    assert set_members(masks, no_nulls(4), of).to_pylist() == [[], ["l0"], ["l63"], ["l0", "l2"]]


def test_bits_keep_their_bytes_and_one_bit_is_a_boolean() -> None:
    data = with_spare_bytes(b"\x01\x00\x00\x01\x00")
    assert bits(data, numbers(0, 1), numbers(1, 1), no_nulls(2), 1).to_pylist() == [True, False]
    found = bits(data, numbers(0, 3), numbers(2, 2), np.array([False, True]), 9)
    assert found.to_pylist() == [b"\x01\x00", None]


@given(st.lists(st.none() | st.binary(max_size=40), min_size=1))
def test_slices_of_any_length_are_copied_completely(values: list[bytes | None]) -> None:
    content = b"".join(value or b"" for value in values)
    length = numbers(*(len(value or b"") for value in values))
    start = np.cumsum(length) - length
    null = np.array([value is None for value in values])
    assert slices(pa.binary(), with_spare_bytes(content), start, length, null).to_pylist() == values


@pytest.mark.parametrize("length", range(13))
def test_a_short_text_at_the_end_after_long_ones(length: int) -> None:
    long, short = b"x" * 100, b"y" * length
    start, size = np.array([0, 100]), np.array([100, length])
    found = slices(pa.string(), with_spare_bytes(long + short), start, size, np.zeros(2, np.bool_))
    assert found.to_pylist() == [long.decode(), short.decode()]


@given(
    st.lists(
        st.none()
        | st.binary(max_size=3)
        | st.text(st.characters(codec="utf-8", exclude_characters="�"), max_size=20).map(str.encode)
    )
)
def test_texts_are_those_of_their_bytes(values: list[bytes | None]) -> None:
    context = cells("varchar(20)")
    found = decoded(pa.array(values, pa.binary()), CHARSETS["utf8mb4"], context)
    found.validate(full=True)
    assert found.to_pylist() == [None if value is None else value.decode("utf-8", "replace") for value in values]
    assert (context.oddities[UNREADABLE] > 0) == any("�" in (text or "") for text in found.to_pylist())
