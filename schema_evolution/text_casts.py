"""Casts of text to column types, by the rules for change messages, which differ from Paimon's casts.

Arrow casts whole columns; only where that fails is each distinct text parsed. A text that does not fit becomes null
with a reason: a bad value is never a schema change.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.cast_times import instants
from penstock.table.values.types import STRING_LENGTH, AtomicType, type_text
from penstock.table.values.variants import encoded

_TRUE = ["t", "true", "y", "yes", "1"]
_FALSE = ["f", "false", "n", "no", "0"]
_DATE = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})")
_STAMP = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?(Z)?")
_CLOCK = re.compile(r"(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?")
_ZERO_DATE = re.compile(r"[0 T:.-]+")
_INTEGER = re.compile(r"-?\d+")
_EPOCH = dt.date(1970, 1, 1).toordinal()
_FIRST_DAY = 1 - _EPOCH
_DAY_NANOS = 86_400_000_000_000
_UNITS = {0: 1_000_000_000, 3: 1_000_000, 6: 1000, 9: 1}
_UNIT_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
_MOST_DIGITS = 38
_BEYOND_FLOAT = 2.0**128 - 2.0**103  # from here on the nearest FLOAT is infinity
_MOST_DAYS = 3_000_000  # a larger number is in milliseconds


class Zero(Exception):
    """A zero date, or a time of day outside of a day: null by default, the epoch or midnight in NOT NULL columns."""


class OutsideOfDay(Zero):
    """A time outside of a day.

    Rejected in key columns: every such value would become midnight, and distinct rows would collapse into one.
    """


KEEPS_TIMES = "(column of a key; --type-mapping time-to-string keeps such times)"
KEEPS_DATES = "(column of a key; --type-mapping to-string keeps such dates)"


@dataclass(slots=True)
class Misfits:
    """Rows with a value that does not fit, each with its first reason.

    `nulled` counts the values that a rule replaced by null, or by zero in NOT NULL columns.
    """

    reasons: dict[int, str] = field(default_factory=dict)
    nulled: int = 0

    def add(self, rows: npt.NDArray[np.int64], reason: str) -> None:
        """Record the rows with the reason; a row keeps its first reason."""
        for row in rows.tolist():
            self.reasons.setdefault(row, reason)


def cast_texts(
    column: pa.Array, target: AtomicType, name: str, mapping: TypeMapping, misfits: Misfits, *, in_key: bool = False
) -> pa.Array:
    """Return a string column as `target`; values that do not fit are null in the result and recorded in `misfits`."""
    fast = _cast_whole(column, target)
    if fast is not None:
        return fast
    parse = _exact_time if in_key and target.root == "TIME" else _parser(target)
    encoded = column.dictionary_encode()
    values: list[object] = []
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        value, reason = _one(parse, text, mapping, in_key=in_key)
        if value is None:
            rows = np.flatnonzero(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False) == number)
            if reason is None:
                misfits.nulled += len(rows)
                value = None if target.nullable else 0
            else:
                misfits.add(rows, f"{name} {type_text(target)}: {text[:80]!r} {reason}")
        values.append(value)
    return _array(values, target).take(encoded.indices)


def _one(parse: Callable[[str], object], text: str, mapping: TypeMapping, *, in_key: bool) -> tuple[object, str | None]:
    try:
        return parse(text), None
    except OutsideOfDay as reason:
        if in_key:
            return None, f"{reason} {KEEPS_TIMES}"
        return None, str(reason) if mapping.zero_date_error else None
    except Zero as reason:
        if in_key and not _ZERO_DATE.fullmatch(text):
            return None, f"{reason} {KEEPS_DATES}"
        return None, str(reason) if mapping.zero_date_error else None
    except InvalidOperation:  # its text is only the name of a class
        return None, "does not fit (it is not a number)"
    except (ValueError, OverflowError) as reason:
        return None, f"does not fit ({reason})" if str(reason) else "does not fit"


def _array(values: list[object], target: AtomicType) -> pa.Array:
    arrow = to_arrow(target)
    if pa.types.is_timestamp(arrow):
        unit = _UNIT_NANOS[arrow.unit]
        return pa.array([None if v is None else int(str(v)) // unit for v in values], pa.int64()).cast(arrow)
    if pa.types.is_date(arrow) or pa.types.is_time(arrow):
        return pa.array(values, pa.int32()).cast(arrow)
    return pa.array(values, arrow)


def _cast_whole(column: pa.Array, target: AtomicType) -> pa.Array | None:
    """Cast the whole column at once; return None when a text in it is not in Arrow's format."""
    arrow = to_arrow(target)
    try:
        match target.root:
            case "CHAR" | "VARCHAR":
                return _fitting(column, pc.utf8_length, target)
            case "BOOLEAN":
                return _booleans(column)
            case "VARBINARY" if _fitting(column, pc.binary_length, target) is not None:
                return pc.cast(column, arrow)
            case "TIME" | "BINARY" | "VARBINARY" | "VARIANT":
                return None
            case "DECIMAL" if not _are_short_and_plain(column):
                return None
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                return _stamps(column, arrow, target.precision)
            case "FLOAT":
                return _floats(pc.cast(column, pa.float64()))
        if target.root == "DATE":
            return _of_this_era(pc.cast(column, arrow), pa.int32(), _FIRST_DAY)
        return pc.cast(column, arrow)
    except pa.ArrowInvalid:
        return None


def _are_short_and_plain(column: pa.Array) -> bool:
    """Return whether Arrow parses these decimals correctly.

    It silently returns wrong numbers for more than 38 digits, and crashes on very negative exponents.
    """
    if (pc.max(pc.binary_length(column)).as_py() or 0) > _MOST_DIGITS:
        return False
    _, offsets, data = column.buffers()
    if data is None:
        return True
    ends = np.frombuffer(offsets, np.int32)
    texts = np.frombuffer(data, np.uint8)[ends[column.offset] : ends[column.offset + len(column)]]
    return not ((texts | 0x20) == ord("e")).any()


def _of_this_era(column: pa.Array, numbers: pa.DataType, first: int) -> pa.Array | None:
    """Return the column, or None when it has values before year 1.

    Arrow has a year 0, which is a zero date here, so each text must be parsed separately.
    """
    least = pc.min(column.view(numbers)).as_py()
    return None if least is not None and least < first else column


def _fitting(column: pa.Array, measure: Callable[[pa.Array], pa.Array], target: AtomicType) -> pa.Array | None:
    if target.length == STRING_LENGTH:
        return column
    longest = pc.max(measure(column)).as_py()
    return column if longest is None or longest <= target.length else None


def _booleans(column: pa.Array) -> pa.Array | None:
    lower = pc.utf8_lower(column)
    true, false = pc.is_in(lower, pa.array(_TRUE)), pc.is_in(lower, pa.array(_FALSE))
    known = pc.or_(pc.or_(true, false), pc.is_null(column))
    if not pc.all(known).as_py():
        return None
    return pc.if_else(pc.is_valid(column), true, pa.scalar(None, pa.bool_()))


def _floats(doubles: pa.Array) -> pa.Array | None:
    """Return the nearest floats; None when a number exceeds their range."""
    floats = pc.cast(doubles, pa.float32(), safe=False)
    beyond = pc.and_(pc.is_inf(floats), pc.invert(pc.is_inf(doubles)))
    return None if pc.any(beyond).as_py() else floats


def _stamps(column: pa.Array, arrow: pa.TimestampType, precision: int) -> pa.Array | None:
    """Cast to timestamps; digits beyond the column's precision are cut off."""
    plain = pa.timestamp(arrow.unit)
    try:
        stamps = pc.cast(column, plain)
    except pa.ArrowInvalid:
        stamps = pc.cast(pc.floor_temporal(pc.cast(column, pa.timestamp("us")), 1, unit=_FLOORS[arrow.unit]), plain)
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit]
    if precision < digits:
        multiple = 10 ** (digits - precision)
        stamps = pc.cast(pc.floor_temporal(stamps, multiple, unit=_FLOORS[arrow.unit]), plain)
    first = _FIRST_DAY * _DAY_NANOS // _UNIT_NANOS[arrow.unit]
    known = _of_this_era(stamps, pa.int64(), first)
    return known.view(pa.int64()).view(arrow) if known is not None and arrow.tz else known


def instants_of(texts: pa.Array, stamps: pa.Array, zone: str) -> pa.Array:
    """Return the instants of texts that were parsed as UTC but are local times of `zone`.

    Numbers and texts that end in Z are independent of the zone and stay unchanged.
    """
    there = instants(stamps.view(pa.timestamp(stamps.type.unit)), zone)
    absolute = pc.match_substring_regex(texts, r"^-?[0-9]+$|Z$")
    return pc.if_else(absolute, stamps, there.view(pa.int64()).view(stamps.type))


_FLOORS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _parser(target: AtomicType) -> Callable[[str], object]:
    match target.root:
        case "CHAR" | "VARCHAR":
            return lambda text: _within(text, len(text), target)
        case "BINARY":
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
            return float
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
    value = float(text)
    if math.isfinite(value) and abs(value) >= _BEYOND_FLOAT:
        raise ValueError("is out of range")
    return value


def _decimal(text: str, target: AtomicType) -> Decimal:
    value = Decimal(text.strip())
    if not value.is_finite():
        raise ValueError("is not a number")
    rounded = value.quantize(Decimal(1).scaleb(-target.scale), rounding=ROUND_HALF_UP, context=_WIDE)
    if rounded.adjusted() + 1 + target.scale > target.precision and rounded != 0:
        raise ValueError(f"has more than {target.precision} digits")
    return rounded


_WIDE = Context(prec=400)


def _days(year: str, month: str, day: str) -> int:
    if int(month) == 0 or int(day) == 0 or int(year) == 0:
        raise Zero("is a zero date")
    return dt.date(int(year), int(month), int(day)).toordinal() - _EPOCH


def _date(text: str) -> int:
    match = _STAMP.fullmatch(text)
    if match:
        return _days(match[1], match[2], match[3])
    if _INTEGER.fullmatch(text):
        number = int(text)
        days = number if abs(number) <= _MOST_DAYS else number // 86_400_000
        if abs(days) > _MOST_DAYS:
            raise ValueError("is out of range")
        return days
    raise ValueError("is not a date")


def _nanos(fraction: str | None) -> int:
    return int((fraction or "0")[:9].ljust(9, "0"))


def _time(text: str) -> int:
    match = _CLOCK.fullmatch(text)
    if match is None:
        if _INTEGER.fullmatch(text):
            return _within_day(int(text))
        raise ValueError("is not a time of day")
    hours, minutes, seconds = int(match[2]), int(match[3]), int(match[4] or 0)
    if minutes > 59 or seconds > 59:
        raise ValueError("is not a time of day")
    if match[1]:
        raise OutsideOfDay("is negative")
    return _within_day(((hours * 60 + minutes) * 60 + seconds) * 1000 + _nanos(match[5]) // 1_000_000)


def _exact_time(text: str) -> int:
    """Parse a time of a key; refuse fractions of milliseconds.

    The table cannot store them, and distinct keys would become equal.
    """
    match = _CLOCK.fullmatch(text)
    if match is not None and _nanos(match[5]) % 1_000_000:
        raise ValueError(f"is not a whole number of milliseconds {KEEPS_TIMES}")
    return _time(text)


def _within_day(millis: int) -> int:
    if not 0 <= millis < 86_400_000:
        raise OutsideOfDay("is not within one day")
    return millis


def _within_reach(nanos: int, precision: int) -> int:
    """Return the nanoseconds if they are in range: timestamps in nanoseconds reach from 1677 to 2262."""
    fits = nanos.bit_length() < 64 if precision > 6 else nanos < (_MOST_DAYS + 1) * _DAY_NANOS
    if not fits or nanos < _FIRST_DAY * _DAY_NANOS:
        raise ValueError("is out of range")
    return nanos


def _stamp(text: str, precision: int) -> int:
    """Return nanoseconds since 1970; a whole number is in the unit of the precision."""
    match = _STAMP.fullmatch(text)
    if match is None:
        if _INTEGER.fullmatch(text):
            return _within_reach(int(text) * _UNITS.get(precision, 1_000_000), precision)
        raise ValueError("is not a date and time")
    hours, minutes, seconds = (int(part or 0) for part in match.group(4, 5, 6))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("is not a date and time")
    nanos = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + _nanos(match[7])
    cut: int = 10 ** (9 - precision)
    return _within_reach(_days(match[1], match[2], match[3]) * _DAY_NANOS + nanos // cut * cut, precision)
