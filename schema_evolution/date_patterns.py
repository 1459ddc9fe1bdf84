"""Java's DateTimeFormatter patterns, applied to whole columns of timestamps."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, DecodeError

_PARTS = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|[^A-Za-z']+")
# Patterns that consist only of these are formatted by Arrow.
# Seconds are missing, because %S of Arrow prints the fraction as well.
_FAST = {"yyyy": "%Y", "uuuu": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "DDD": "%j"}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 -- wall clocks of no zone
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

PatternPart = Callable[[dt.datetime, int], str]


def format_timestamps(stamps: pa.Array, pattern: str) -> pa.Array:
    """Return timestamps as text.

    Arrow formats common patterns; otherwise each distinct value is formatted in Python.
    """
    fast = _arrow_pattern(pattern)
    if fast is not None:
        return pc.strftime(pc.floor_temporal(stamps, 1, unit="second"), fast)
    pieces = _pieces(pattern)
    encoded = stamps.dictionary_encode()
    per_second = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}[stamps.type.unit]
    texts = []
    for value in encoded.dictionary.view(pa.int64()).to_pylist():
        seconds, fraction = divmod(value, per_second)
        try:
            moment = _EPOCH + dt.timedelta(seconds=seconds)
        except OverflowError as reason:
            raise DecodeError(f"a time outside the years 1 to 9999 cannot be written as {pattern!r}") from reason
        nanos = fraction * (1_000_000_000 // per_second)
        texts.append("".join(piece(moment, nanos) for piece in pieces))
    return pa.array(texts, pa.string()).take(encoded.indices)


def parse_timestamps(texts: pa.Array, pattern: str) -> pa.Array:
    """Return the timestamps in texts of this pattern; fields that the pattern lacks are taken from 1970-01-01 00:00.

    DecodeError for texts of another form.
    """
    regex = _reading(pattern)
    encoded = texts.dictionary_encode()
    stamps = []
    for text in encoded.dictionary.to_pylist():
        found = regex.fullmatch(text)
        try:
            stamps.append(_moment(found.groupdict() if found else None))
        except ValueError as reason:
            raise DecodeError(f"{text[:80]!r} is not a time of the form {pattern!r}") from reason
    return pa.array(stamps, pa.timestamp("us")).take(encoded.indices)


_READ = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "S": "micro"}


@lru_cache(maxsize=256)
def _reading(pattern: str) -> re.Pattern[str]:
    regex = []
    for part in _split(pattern):
        if not part[0].isalpha():
            regex.append(re.escape(_literal(part)))
        elif part[0] not in _READ or len(part) > 9 or (part[0] == "M" and len(part) > 2):
            raise ConfigError(
                f"{part!r} in {pattern!r} is not supported for parsing",
                hint=f"supported letters are {', '.join(_READ)}",
            )
        else:
            # A single letter matches any number of digits, a repeated letter exactly its count.
            digits = r"\d+" if len(part) == 1 else rf"\d{{{len(part)}}}"
            regex.append(f"(?P<{_READ[part[0]]}>{digits})")
    try:
        return re.compile("".join(regex), re.ASCII)
    except re.error as reason:
        raise ConfigError(
            f"{pattern!r} contains the same part of a time twice",
            hint="leave one of them out, as in yyyy-MM-dd HH:mm:ss",
        ) from reason


def _moment(found: dict[str, str] | None) -> dt.datetime:
    if found is None:
        raise ValueError
    year = found.get("year", "1970")
    month, day = (int(found.get(name, 1)) for name in ("month", "day"))
    hour, minute, second = (int(found.get(name, 0)) for name in ("hour", "minute", "second"))
    micros = int(found.get("micro", "").ljust(6, "0")[:6])
    # As in Java, years of two digits begin with 2000.
    century = 2000 if len(year) == 2 else 0
    return dt.datetime(int(year) + century, month, day, hour, minute, second, micros)  # noqa: DTZ001 -- of no zone


def check_pattern(pattern: str) -> None:
    """Raise ConfigError for an invalid pattern."""
    _pieces(pattern)


def _arrow_pattern(pattern: str) -> str | None:
    out = []
    for part in _split(pattern):
        if part[0].isalpha():
            if part not in _FAST:
                return None
            out.append(_FAST[part])
        else:
            out.append(_literal(part).replace("%", "%%"))
    return "".join(out)


def _split(pattern: str) -> list[str]:
    parts = [match[0] for match in _PARTS.finditer(pattern)]
    if "".join(parts) != pattern:
        raise ConfigError(f"{pattern!r} is not a valid date pattern", hint="add the closing quote")
    return parts


def _literal(part: str) -> str:
    return (part[1:-1].replace("''", "'") or "'") if part.startswith("'") else part


@lru_cache(maxsize=256)
def _pieces(pattern: str) -> tuple[PatternPart, ...]:
    return tuple(_piece(part, pattern) for part in _split(pattern))


def _piece(part: str, pattern: str) -> PatternPart:
    if not part[0].isalpha():
        text = _literal(part)
        return lambda moment, nanos: text
    letter, count = part[0], len(part)
    match letter:
        case "y" | "u":
            return lambda moment, nanos: _year(moment.year, count)
        case "Y":
            return lambda moment, nanos: _year(_us_week(moment)[0], count)
        case "w":
            return lambda moment, nanos: str(_us_week(moment)[1]).zfill(count)
        case "M" | "L" if count >= 3:
            return lambda moment, nanos: _MONTHS[moment.month - 1][: 3 if count == 3 else None]
        case "E":
            return lambda moment, nanos: _DAYS[moment.weekday()][: 3 if count <= 3 else None]
        case "a":
            return lambda moment, nanos: "AM" if moment.hour < 12 else "PM"
        case "S":
            return lambda moment, nanos: f"{nanos:09d}"[:count].ljust(count, "0")
        case "n":
            return lambda moment, nanos: str(nanos).zfill(count)
    extract = _NUMBERS.get(letter)
    if extract is None:
        raise ConfigError(
            f"the letter {letter!r} in {pattern!r} does not stand for a part of a date or time",
            hint="put literal letters in single quotes: yyyy-MM-dd'T'HH",
        )
    return lambda moment, nanos: str(extract(moment)).zfill(count)


_NUMBERS: dict[str, Callable[[dt.datetime], int]] = {
    "M": lambda moment: moment.month,
    "L": lambda moment: moment.month,
    "d": lambda moment: moment.day,
    "D": lambda moment: moment.timetuple().tm_yday,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "K": lambda moment: moment.hour % 12,
    "h": lambda moment: moment.hour % 12 or 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
    "Q": lambda moment: (moment.month + 2) // 3,
    "q": lambda moment: (moment.month + 2) // 3,
    "e": lambda moment: moment.isoweekday() % 7 + 1,
}


def _year(year: int, count: int) -> str:
    return str(year % 100).zfill(2) if count == 2 else str(year).zfill(count)


def _us_week(moment: dt.datetime) -> tuple[int, int]:
    """Return week-based year and week in Java's default locale.

    Weeks start on Sunday, and the first one contains January 1.
    """
    # A week belongs to the year of its Saturday: if that is in January, the week contains January 1.
    sunday = moment.date() - dt.timedelta(days=moment.isoweekday() % 7)
    year = (sunday + dt.timedelta(days=6)).year
    first = dt.date(year, 1, 1)
    start = first - dt.timedelta(days=first.isoweekday() % 7)
    return year, (sunday - start).days // 7 + 1
