"""Parsing of one text to a value of a type, for texts that the columnar casts do not cover."""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

from penstock.table.values.types import AtomicType, type_text
from penstock.table.values.variants import encoded

TRUE = ["t", "true", "y", "yes", "1"]
FALSE = ["f", "false", "n", "no", "0"]
STAMP = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?)?(Z)?")
CLOCK = re.compile(r"(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?")
_OFFSET = re.compile(r"[+-]\d\d:?\d\d")
ZERO_DATE = re.compile(r"[0 T:.-]+")
_INTEGER = re.compile(r"-?\d+")
_EPOCH = dt.date(1970, 1, 1).toordinal()
FIRST_DAY = 1 - _EPOCH
DAY_NANOS = 86_400_000_000_000
DAY_MILLIS = 86_400_000
_UNITS = {0: 1_000_000_000, 3: 1_000_000, 6: 1000, 9: 1}
MOST_DIGITS = 38
# From here on the nearest FLOAT is infinity.
_BEYOND_FLOAT = 2.0**128 - 2.0**103
# A larger number of a DATE is in milliseconds.
MOST_DAYS = 3_000_000


class Zero(Exception):
    """A zero date, or a time of day outside of a day: null by default, the epoch or midnight in NOT NULL columns."""


class OutsideOfDay(Zero):
    """A time outside of a day.

    Rejected in key columns: every such value would become midnight, and distinct rows would collapse into one.
    """


class HasOffset(ValueError):
    """A local time with its offset from UTC, as sources make it of the later of two times that clocks show alike.

    Rejected: a column of times has no offset, and in a key distinct rows would collapse into one.
    """


KEEPS_TIMES = "(column of a key; --type-mapping time-to-string keeps such times)"
KEEPS_DATES = "(column of a key; --type-mapping to-string keeps such dates)"
KEEPS_OFFSETS = (
    "(column of a key; if it is MySQL's TIMESTAMP, clocks of server-time-zone show this time twice: a new table with "
    "server-time-zone: UTC or with --type-mapping to-string keeps both rows)"
)


def parser_of(target: AtomicType) -> Callable[[str], object]:
    match target.root:
        case "CHAR" | "VARCHAR":
            return lambda text: _within(text, len(text), target)
        case "BINARY":
            # Paimon's actions read BINARY from base64, and VARBINARY from the bytes of the text.
            return lambda text: _measured(_base64(text), target)
        case "VARBINARY":
            return lambda text: _measured(text.encode(), target)
        case "BOOLEAN":
            return _boolean
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[target.root]
            return lambda text: _integer(text, bits)
        case "DECIMAL":
            return lambda text: _decimal(text, target)
        case "FLOAT":
            return _float
        case "DOUBLE":
            return _double
        case "DATE":
            return _date
        case "TIME":
            return _time
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return lambda text: _stamp(text, target.precision)
        case "VARIANT":
            return lambda text: dict(zip(("value", "metadata"), encoded(text), strict=True))
    raise ValueError(f"text cannot be converted to {type_text(target)}")


def _within(text: str, length: int, target: AtomicType) -> str:
    if length > target.length:
        raise ValueError(f"{length} characters")
    return text


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as reason:
        raise ValueError("is not base64") from reason


def _measured(data: bytes, target: AtomicType) -> bytes:
    if len(data) > target.length:
        raise ValueError(f"{len(data)} bytes")
    return data


def _boolean(text: str) -> bool:
    match text.lower():
        case "t" | "true" | "y" | "yes" | "1":
            return True
        case "f" | "false" | "n" | "no" | "0":
            return False
    raise ValueError("is neither true nor false")


def _integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError("is not an integer")
    value = int(text)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError("is out of range")
    return value


def _float(text: str) -> float:
    value = _double(text)
    if math.isfinite(value) and abs(value) >= _BEYOND_FLOAT:
        raise ValueError("is out of range")
    return value


def _double(text: str) -> float:
    value = float(_without_underscores(text))
    if math.isinf(value) and "inf" not in text.lower():
        raise ValueError("is out of range")
    return value


def _without_underscores(text: str) -> str:
    # Python reads 1_000 as a number.
    if "_" in text:
        raise ValueError("is not a number")
    return text


def _decimal(text: str, target: AtomicType) -> Decimal:
    value = Decimal(_without_underscores(text).strip())
    if not value.is_finite():
        raise ValueError("is not a number")
    # Paimon rounds half up too.
    rounded = value.quantize(Decimal(1).scaleb(-target.scale), rounding=ROUND_HALF_UP, context=_WIDE)
    # `adjusted` is the exponent of the first digit, so this is the number of digits from there to the last place.
    if rounded.adjusted() + 1 + target.scale > target.precision and rounded != 0:
        raise ValueError(f"has more than {target.precision} digits")
    return rounded


_WIDE = Context(prec=400)


def _days(year: str, month: str, day: str) -> int:
    if int(month) == 0 or int(day) == 0 or int(year) == 0:
        raise Zero("is a zero date")
    return dt.date(int(year), int(month), int(day)).toordinal() - _EPOCH


def _date(text: str) -> int:
    match = STAMP.fullmatch(text)
    if match:
        # A time after the date is cut.
        return _days(match[1], match[2], match[3])
    if _INTEGER.fullmatch(text):
        number = int(text)
        days = number if abs(number) <= MOST_DAYS else number // DAY_MILLIS
        if abs(days) > MOST_DAYS:
            raise ValueError("is out of range")
        return days
    raise ValueError("is not a date")


def _nanos(fraction: str | None) -> int:
    return int((fraction or "0")[:9].ljust(9, "0"))


def _time(text: str) -> int:
    match = CLOCK.fullmatch(text)
    if match is None:
        if _INTEGER.fullmatch(text):
            return _millis(int(text))
        raise ValueError("is not a time of day")
    hours, minutes, seconds = int(match[2]), int(match[3]), int(match[4] or 0)
    if minutes > 59 or seconds > 59:
        raise ValueError("is not a time of day")
    if match[1]:
        # Also -00:00:00.5, whose parts alone would be within a day.
        raise OutsideOfDay("is negative")
    return _within_day(((hours * 60 + minutes) * 60 + seconds) * 1000 + _nanos(match[5]) // 1_000_000)


def _millis(number: int) -> int:
    """Return a number of milliseconds; ValueError if it is longer than a day, because it has another unit then.

    Debezium sends numbers of microseconds by default, and messages without their schema do not say so.
    """
    if not 0 <= number < DAY_MILLIS:
        raise ValueError(
            "is not within one day as milliseconds, in which numbers without a declared type count; Debezium sends "
            "microseconds unless time.precision.mode is connect: let it send schemas, or set --type-mapping "
            "time-micros and read the table again, whose times before 00:01:26 are wrong otherwise"
        )
    return number


def clock_of_micros(text: str) -> str:
    """Return a number of microseconds as a time; other texts are returned as they are."""
    if not _INTEGER.fullmatch(text):
        return text
    seconds, micros = divmod(abs(int(text)), 1_000_000)
    sign = "-" if text.startswith("-") and (seconds or micros) else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


def _within_day(millis: int) -> int:
    if not 0 <= millis < 86_400_000:
        raise OutsideOfDay("is not within one day")
    return millis


def _within_reach(nanos: int, precision: int) -> int:
    """Return the nanoseconds if they are in range: timestamps in nanoseconds reach from 1677 to 2262."""
    fits = nanos.bit_length() < 64 if precision > 6 else nanos < (MOST_DAYS + 1) * DAY_NANOS
    if not fits or nanos < FIRST_DAY * DAY_NANOS:
        raise ValueError("is out of range")
    return nanos


def _stamp(text: str, precision: int) -> int:
    """Return nanoseconds since 1970; a whole number is in the unit of the precision."""
    match = STAMP.fullmatch(text)
    if match is None:
        if _INTEGER.fullmatch(text):
            # Other precisions than 0, 3, 6 and 9 count in milliseconds.
            return _within_reach(int(text) * _UNITS.get(precision, 1_000_000), precision)
        if (offset := _OFFSET.search(text, len("2024-10-27 02"))) and STAMP.fullmatch(text[: offset.start()]):
            raise HasOffset("has an offset from UTC, which the column cannot store")
        raise ValueError("is not a date and time")
    hours, minutes, seconds = (int(part or 0) for part in match.group(4, 5, 6))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("is not a date and time")
    nanos = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + _nanos(match[7])
    cut: int = 10 ** (9 - precision)
    return _within_reach(_days(match[1], match[2], match[3]) * DAY_NANOS + nanos // cut * cut, precision)
