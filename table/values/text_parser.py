"""Parsing of text into values, as lenient and as strict as Java's casts from STRING."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from decimal import Decimal
from typing import NoReturn

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.local_times import instants
from penstock.table.values.cast_numbers import rounded_decimal
from penstock.table.values.cast_rules import CastFailed
from penstock.table.values.cast_times import DAY
from penstock.table.values.internal import from_internal
from penstock.table.values.types import AtomicType, type_text

_INT_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_INTEGER = re.compile(r"([+-]?)(?=[0-9.])([0-9]*)(?:\.[0-9]*)?")
_DIGITS = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?")
_DATE = re.compile(r"([0-9]+)(?:-([0-9]+)(?:-([0-9]+))?)?")
_TIME = re.compile(r"([0-9]+)(?::([0-9]+)(?::([0-9]+)(?:\.([0-9]*))?)?)?")
_STAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{0,9}))?)?"
)
# The characters that String.trim removes.
_JAVA_BLANKS = "".join(map(chr, range(33)))


def parse_texts(array: pa.Array, target: AtomicType, zone: str) -> pa.Array:
    """Return a string column as `target`. Each distinct text is parsed once; an invalid text raises CastFailed."""
    local = target.root == "TIMESTAMP_LTZ"
    wall = AtomicType("TIMESTAMP", precision=target.precision) if local else target
    parse = _parser(target)
    encoded = array.dictionary_encode()
    values = [_parsed(text, parse, target) for text in encoded.dictionary.to_pylist()]
    column = from_internal(values, wall).take(encoded.indices)
    return instants(column, zone) if local else column


def parse_text(text: str, target: AtomicType) -> object:
    """Return the internal value of one text. For TIMESTAMP_LTZ it is the local time, without a zone."""
    return _parsed(text, _parser(target), target)


def _parsed(text: str, parse: Callable[[str], object], target: AtomicType) -> object:
    try:
        return parse(text)
    except ValueError as error:
        raise CastFailed(
            f"{text!r} cannot be read as {type_text(target)}",
            hint="change the column back to STRING to see the stored text",
            value=text,
            type=type_text(target),
        ) from error


def _parser(target: AtomicType) -> Callable[[str], object]:
    match target.root:
        case "BOOLEAN":
            return parse_boolean
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return lambda text: parse_integer(text, _INT_BITS[target.root])
        case "FLOAT" | "DOUBLE":
            return parse_float
        case "DECIMAL":
            return lambda text: rounded_decimal(_decimal(text), target)
        case "DATE":
            return parse_date
        case "TIME":
            return parse_time
        case "TIMESTAMP":
            return lambda text: parse_timestamp(text, target.precision)
        case "TIMESTAMP_LTZ":
            return lambda text: parse_wall_clock(text, target.precision)
    raise ConfigError(f"text cannot be read as {type_text(target)}", hint="name a column of another type")


def parse_boolean(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE and word not in _FALSE:
        raise ValueError(text)
    return word in _TRUE


def parse_integer(text: str, bits: int) -> int:
    """Return the integer in the text. Digits after a decimal point are ignored."""
    match = _matched(_INTEGER, text)
    value = int(match[1] + (match[2] or "0"))
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(text)
    return value


def parse_float(text: str) -> float:
    bare = text.strip(_JAVA_BLANKS)
    hexadecimal = _HEX_FLOAT.fullmatch(bare)
    return float.fromhex(hexadecimal[1]) if hexadecimal else float(_matched(_FLOAT, bare)[1])


def _decimal(text: str) -> Decimal:
    return Decimal(_matched(_DECIMAL, text)[0])


def parse_date(text: str) -> int:
    """Return the days since 1970 from a number of days or from year[-month[-day]]. Text after a blank is ignored.

    Digits without a blank around them are a number of days, with one they are a year.
    """
    if _DIGITS.fullmatch(text):
        return parse_integer(text, 32)
    match = _matched(_DATE, text.strip(_JAVA_BLANKS).partition(" ")[0])
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    if year > 9999:
        raise ValueError(text)
    return int(np.datetime64(f"{year:04d}-{month:02d}-{day:02d}", "D").astype(np.int64))


def parse_time(text: str) -> int:
    """Return the milliseconds of the day, from a count of them or from hour[:minute[:second[.fraction]]], rounded.

    Digits without a blank around them are a count, with one they are an hour.
    """
    if _DIGITS.fullmatch(text):
        millis = int(text)
    else:
        match = _matched(_TIME, text.strip(_JAVA_BLANKS))
        seconds = (int(match[1]) * 60 + int(match[2] or 0)) * 60 + int(match[3] or 0)
        millis = seconds * 1000 + (int((match[4] or "0").ljust(4, "0")[:4]) + 5) // 10
    # Java accepts times beyond the end of the day, but Arrow's time types cannot represent them.
    return millis if 0 <= millis < DAY else _refuse(text)


def parse_timestamp(text: str, precision: int) -> int:
    """Return nanoseconds since 1970, from a count in the precision's unit or from a date with or without a time."""
    if not _DIGITS.fullmatch(text):
        return parse_wall_clock(text, precision)
    # Only whole seconds, milliseconds, microseconds and nanoseconds can be counted, in a 64-bit number.
    if precision % 3 or len(text) > 19:
        raise ValueError(text)
    return int(text) * int(10 ** (9 - precision))


def parse_wall_clock(text: str, precision: int) -> int:
    """Return nanoseconds since 1970 from a date with or without a time of day, without a zone.

    Digits beyond the precision are cut off.
    """
    match = _matched(_STAMP, text)
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    hour, minute, second = (int(part or 0) for part in match.group(4, 5, 6))
    nanos = int((match[7] or "")[:precision].ljust(9, "0"))
    # Java's formatter accepts 24:00:00 as the end of the day.
    midnight = hour == 24 and not (minute or second or nanos)
    valid = year >= 1 and 1 <= month <= 12 and 1 <= day <= 31 and minute < 60 and second < 60
    if not valid or (hour > 23 and not midnight):
        raise ValueError(text)
    # A day beyond the end of its month becomes the last day of the month.
    day = min(day, calendar.monthrange(year, month)[1])
    days = int(np.datetime64(f"{year:04d}-{month:02d}-{day:02d}", "D").astype(np.int64))
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 10**9 + nanos


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)
