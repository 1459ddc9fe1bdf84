"""Dates and times from their numeric parts, shared by snapshot and binlog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import has_any
from penstock.ingest.database.buffers import fixed, texts
from penstock.ingest.mysql.values.rules import TIME_OUT_OF_DAY, ZERO_DATE

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.mysql.values.rules import CellContext

# The eras of 400 years of dates, and the places of their months in the calendar of one era.
Months = tuple["Int64s", "Int64s"]

_DAY_US = 86_400_000_000


def _calendar() -> tuple[Int64s, Int64s]:
    """Return two tables for an era, by `16 * year + month`: the days of the month, and the day before it since 1970.

    A date that is looked up costs a fifth of the divisions that compute it.
    """
    months = np.arange("0000-01", "0400-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)
    at = np.arange(400 * 12) // 12 * 16 + np.arange(400 * 12) % 12 + 1
    last, before = np.zeros(400 * 16, np.int64), np.zeros(400 * 16, np.int64)
    last[at], before[at] = np.diff(months), months[:-1] - 1
    return last, before


_LAST_DAYS, _DAYS_BEFORE = _calendar()


@dataclass(frozen=True, slots=True)
class DateTimeParts:
    """A calendar date and time, part by part, as in MySQL: any part may be zero."""

    year: Int64s
    month: Int64s
    day: Int64s
    hour: Int64s
    minute: Int64s
    second: Int64s
    micro: Int64s

    @classmethod
    def of_dates(cls, year: Int64s, month: Int64s, day: Int64s) -> DateTimeParts:
        zero = np.zeros(len(year), np.int64)
        return cls(year, month, day, zero, zero, zero, zero)

    @classmethod
    def of_instants(cls, seconds: Int64s, micro: Int64s) -> DateTimeParts:
        """Return the parts of seconds since the epoch, where zero is MySQL's zero date."""
        days, rest = np.divmod(seconds, 86_400)
        year, month, day = _civil(days)
        # With a fraction it is an instant: MariaDB stores 1970-01-01 00:00:00.00001, which MySQL turns
        # into the zero date.
        zero = (seconds == 0) & (micro == 0)
        year, month, day = (np.where(zero, 0, part) for part in (year, month, day))
        return cls(year, month, day, rest // 3600, rest // 60 % 60, rest % 60, micro)

    def is_real(self, months: Months) -> Bools:
        """Return whether each date exists in the calendar. Year 0 counts as a zero date, like the text `0000`."""
        real: Bools = (self.day > 0) & (self.day <= _LAST_DAYS[months[1]]) & (self.year > 0)
        return real

    def days(self, months: Months) -> Int64s:
        """Return days since 1970-01-01 for real dates (meaningless for others)."""
        days: Int64s = _DAYS_BEFORE[months[1]] + months[0] * 146_097 + self.day
        return days

    def months(self) -> Months:
        era = self.year // 400
        # The months 13 to 15, which do not exist, have places too, without days.
        return era, (self.year - era * 400) * 16 + np.minimum(self.month, 15)

    def micros(self, months: Months) -> Int64s:
        seconds = self.days(months) * 86_400 + self.hour * 3600 + self.minute * 60 + self.second
        micros: Int64s = seconds * 1_000_000 + self.micro
        return micros


def _civil(days: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    # Days since 0000-03-01. An era is 400 years of 146,097 days, and years begin in March, as in `days`.
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted_month = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted_month + 2) // 5 + 1
    month = np.where(shifted_month < 10, shifted_month + 3, shifted_month - 9)
    return year + era * 400 + (month <= 2), month, day


def instants(seconds: Int64s, micro: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    """Return TIMESTAMP from seconds since the epoch, where zero is MySQL's zero date."""
    zero = seconds | micro == 0
    if cells.rules.zero_date == "text" or has_any(zero & ~null if has_any(null) else zero):
        return datetimes(DateTimeParts.of_instants(seconds, micro), null, cells)
    return fixed(_kind(cells), _without(null, seconds * 1_000_000 + micro), null)


def dates(parts: DateTimeParts, null: Bools, cells: CellContext) -> pa.Array:
    """Return DATE columns; odd dates are subject to the rule."""
    months = parts.months()
    if _stay_texts(parts, months, null, cells):
        return _calendar_texts(parts, null, clock=False, digits=0)
    odd, null = _zero_dates(parts, months, null, cells)
    return fixed(pa.date32(), _without(odd, parts.days(months)).astype(np.int32), null)


def datetimes(parts: DateTimeParts, null: Bools, cells: CellContext) -> pa.Array:
    """Return DATETIME without time zone, TIMESTAMP as an instant (UTC)."""
    months = parts.months()
    if _stay_texts(parts, months, null, cells):
        return _calendar_texts(parts, null, clock=True, digits=_text_digits(cells))
    odd, null = _zero_dates(parts, months, null, cells)
    return fixed(_kind(cells), _without(odd, parts.micros(months)), null)


def _kind(cells: CellContext) -> pa.DataType:
    return pa.timestamp("us", tz="UTC" if cells.column.type.base == "timestamp" else None)


def _without(places: Bools, values: Int64s) -> Int64s:
    """Return the values with zeros in these places."""
    return np.where(places, 0, values) if has_any(places) else values


def _text_digits(cells: CellContext) -> int:
    """Return the digits of the fraction.

    With the rule `text`, they are the digits that Paimon's CDC actions write, not the declared ones.
    """
    declared = cells.column.type.size or 0
    if cells.rules.zero_date != "text":
        return declared
    return 3 if cells.column.type.base == "datetime" and declared <= 3 else 6


def _stay_texts(parts: DateTimeParts, months: Months, null: Bools, cells: CellContext) -> bool:
    """Return whether the column becomes text, because of the rule or because of odd dates that must be rejected by row.

    Odd dates are rejected in key columns too: all of them would become the epoch, and distinct rows would collapse into
    one. Only the zero date itself is allowed there, as the epoch.
    """
    rule = cells.rules.zero_date
    if rule == "text" or not (cells.in_key or rule == "error"):
        return rule == "text"
    odd = ~parts.is_real(months) & ~null
    if rule != "error":
        odd &= (parts.year | parts.month | parts.day | parts.hour | parts.minute | parts.second | parts.micro) > 0
    return bool(odd.any())


def _zero_dates(parts: DateTimeParts, months: Months, null: Bools, cells: CellContext) -> tuple[Bools, Bools]:
    """Return which cells have no date, odd ones or nulls, and which are null after applying the rule to odd ones."""
    unreal = ~parts.is_real(months)
    odd = unreal & ~null if has_any(null) else unreal
    if not has_any(odd):
        return null, null
    cells.oddities[ZERO_DATE] += int(odd.sum())
    becomes_null = cells.column.nullable and cells.rules.zero_date == "null"
    return odd | null, null | odd if becomes_null else null


def times(micros: Int64s, negative: Bools, null: Bools, cells: CellContext) -> pa.Array:
    """Return TIME as time of day; values below zero or from 24 hours on are subject to the rule.

    `micros` is the absolute value, because MySQL has a negative zero. Values to be rejected are returned as texts.
    """
    if cells.rules.time == "text":
        return _clock_texts(micros, negative, null, cells.column.type.size or 0)
    odd = (negative | (micros >= _DAY_US)) & ~null
    if odd.any():
        if cells.rules.time == "error" or cells.in_key:
            # In a key, all odd times would become midnight, and distinct rows would collapse into one.
            return _clock_texts(micros, negative, null, cells.column.type.size or 0)
        cells.oddities[TIME_OUT_OF_DAY] += int(odd.sum())
        # A NOT NULL column has no other representation than midnight.
        null = null | odd if cells.column.nullable else null
    return fixed(pa.time64("us"), np.where(odd | null, 0, micros), null)


def _digits(matrix: Bytes, column: int, value: Int64s, width: int) -> None:
    for place in range(column + width - 1, column - 1, -1):
        value, digit = np.divmod(value, 10)
        matrix[:, place] = digit + ord("0")


def _fraction(matrix: Bytes, column: int, micro: Int64s, digits: int) -> None:
    if digits:
        matrix[:, column] = ord(".")
        _digits(matrix, column + 1, micro // 10 ** (6 - digits), digits)


def _calendar_texts(parts: DateTimeParts, null: Bools, *, clock: bool, digits: int) -> pa.Array:
    """Return `YYYY-MM-DD[ HH:MM:SS[.f]]` as the server prints it, zero parts included."""
    width = (20 + digits if digits else 19) if clock else 10
    matrix = np.empty((len(null), width), np.uint8)
    # The separators; digits are written into the blanks.
    matrix[:, :10] = np.frombuffer(b"    -  -  ", np.uint8)
    for column, value, size in ((0, parts.year, 4), (5, parts.month, 2), (8, parts.day, 2)):
        _digits(matrix, column, value, size)
    if clock:
        matrix[:, 10:19] = np.frombuffer(b"   :  :  ", np.uint8)
        for column, value in ((11, parts.hour), (14, parts.minute), (17, parts.second)):
            _digits(matrix, column, value, 2)
        _fraction(matrix, 19, parts.micro, digits)
    return texts(matrix, np.ones(matrix.shape, np.bool_), null)


def _clock_texts(micros: Int64s, negative: Bools, null: Bools, digits: int) -> pa.Array:
    """Return `[-]HH:MM:SS[.f]`, with a third digit of hours if needed."""
    matrix = np.empty((len(null), 10 + (digits + 1 if digits else 0)), np.uint8)
    matrix[:, :10] = np.frombuffer(b"-   :  :  ", np.uint8)
    seconds, micro = np.divmod(np.where(null, 0, micros), 1_000_000)
    for column, value, size in ((1, seconds // 3600, 3), (5, seconds // 60 % 60, 2), (8, seconds % 60, 2)):
        _digits(matrix, column, value, size)
    _fraction(matrix, 10, micro, digits)
    keep = np.ones(matrix.shape, np.bool_)
    keep[:, 0] = negative
    keep[:, 1] = seconds >= 360_000
    return texts(matrix, keep, null)
