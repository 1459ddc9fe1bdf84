"""The clock functions and time arithmetic of expressions, on whole columns.

They depend only on the batch's instant and the pipeline's time zone, so a batch that is read again yields the same
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, DecodeError
from penstock.local_times import instants, wall_clock
from penstock.schema_evolution.date_patterns import format_timestamps, parse_timestamps
from penstock.schema_evolution.expressions.operators import stamps, texts

Values = Any  # an Arrow array, or a scalar when the expression is constant

# Microseconds per unit; a negative number counts months.
UNITS = {
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
    "month": -1,
    "quarter": -3,
    "year": -12,
}
_SECONDS_PATTERN = "yyyy-MM-dd HH:mm:ss"


@dataclass(frozen=True, slots=True)
class Moment:
    """The context of a function besides its arguments.

    It has the batch's instant, its number of rows, and the pipeline's time zone.
    """

    now_millis: int
    rows: int
    zone: str = "UTC"


def constant(value: Values, of: str) -> str:
    """Return the value of an argument that must be a constant text."""
    if not isinstance(value, pa.Scalar) or not pa.types.is_string(value.type) or not value.is_valid:
        raise ConfigError(f"this argument of {of} must be a constant string, not a column", hint="write it in quotes")
    return str(value.as_py())


def now(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return the instant of the batch, in UTC."""
    return pa.scalar(moment.now_millis, pa.timestamp("ms"))


def local_timestamp(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return the instant of the batch in the pipeline's local time."""
    return _in_zone(pa.scalar(moment.now_millis, pa.timestamp("ms", "UTC")), moment.zone)


def local_time(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return the local time of day of the batch, in seconds."""
    second = pc.floor_temporal(local_timestamp(arguments, moment), 1, unit="second")
    return pc.cast(pc.cast(second, pa.timestamp("s")), pa.time32("s"))


def today(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return the local day of the batch."""
    return pc.cast(pc.floor_temporal(local_timestamp(arguments, moment), 1, unit="day"), pa.date32())


def unix_timestamp(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return seconds since 1970: of the batch without arguments, otherwise of a text or time.

    A text is local time in the pipeline's zone; a timestamp is not shifted.
    """
    if not arguments:
        return pa.scalar(moment.now_millis // 1000, pa.int64())
    stamp = read_time(arguments, "unix_timestamp")
    if pa.types.is_string(arguments[0].type):
        stamp = _instants(stamp, moment.zone)
    second = pc.floor_temporal(stamp, 1, unit="second")
    return pc.cast(pc.cast(second, pa.timestamp("s", second.type.tz)), pa.int64())


def from_unixtime(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return the text of seconds since 1970, as local time in the pipeline's zone."""
    instant = pc.cast(pc.cast(arguments[0], pa.int64()), pa.timestamp("s", "UTC"))
    pattern = constant(arguments[1], "from_unixtime") if len(arguments) > 1 else _SECONDS_PATTERN
    return formatted(_in_zone(instant, moment.zone), pattern)


def _instants(local: Values, zone: str) -> Values:
    return instants(pa.array([local]), zone)[0] if isinstance(local, pa.Scalar) else instants(local, zone)


def _in_zone(instant: Values, zone: str) -> Values:
    return wall_clock(pa.array([instant]), zone)[0] if isinstance(instant, pa.Scalar) else wall_clock(instant, zone)


def formatted(value: Values, pattern: str) -> Values:
    """Return timestamps as texts, by a Java pattern."""
    if isinstance(value, pa.Scalar):
        return format_timestamps(pa.array([value], value.type), pattern)[0]
    return format_timestamps(value, pattern)


def read_time(arguments: Sequence[Values], of: str) -> Values:
    """Return timestamps, parsed from texts by a Java pattern when the call has one."""
    if len(arguments) == 1:
        return stamps(arguments[0])
    value, pattern = texts(arguments[0]), constant(arguments[1], of)
    if isinstance(value, pa.Scalar):
        return parse_timestamps(pa.array([value.as_py()], pa.string()), pattern)[0]
    return parse_timestamps(value, pattern)


def added(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return the time plus a number of units.

    The day is cut to the last one of the month if the resulting month is too short.
    """
    per_unit = _per_unit(arguments[0], "timestampadd")
    count = arguments[1]
    if not (pa.types.is_integer(count.type) or pa.types.is_null(count.type)):
        raise ConfigError(f"timestampadd needs an integer number of units, not {count.type}", hint="cast it to int")
    count, stamp = pc.cast(count, pa.int64()), pc.cast(stamps(arguments[2]), pa.timestamp("us"))
    try:
        if per_unit > 0:
            return pc.add_checked(stamp, pc.cast(pc.multiply_checked(count, per_unit), pa.duration("us")))
        return _months_later(stamp, pc.multiply_checked(count, -per_unit), moment.rows)
    except pa.ArrowInvalid as reason:
        raise DecodeError(f"a time is out of the range of its type: {reason}") from reason


def _per_unit(value: Values, of: str) -> int:
    unit = constant(value, of).lower()
    if unit not in UNITS:
        raise ConfigError(f"{unit!r} is not a unit of time", hint=", ".join(UNITS))
    return UNITS[unit]


def _months_later(stamp: Values, months: Values, rows: int) -> pa.Array:
    stamp, months = (
        pa.repeat(operand, rows) if isinstance(operand, pa.Scalar) else operand for operand in (stamp, months)
    )
    valid = pc.and_(pc.is_valid(stamp), pc.is_valid(months))
    # numpy adds months to dates in units of months. The day within the month is added afterwards, up to the last
    # day of the resulting month, and then the time of day.
    times = pc.fill_null(stamp, 0).to_numpy(zero_copy_only=False).astype("M8[us]")
    begun = times.astype("M8[M]")
    wanted = begun + pc.fill_null(months, 0).to_numpy(zero_copy_only=False).astype("m8[M]")
    days = times.astype("M8[D]")
    last = (wanted + np.timedelta64(1, "M")).astype("M8[D]") - np.timedelta64(1, "D")
    day = np.minimum(wanted.astype("M8[D]") + (days - begun.astype("M8[D]")), last)
    later = day.astype("M8[us]") + (times - days.astype("M8[us]"))
    return pc.if_else(valid, pa.array(later, pa.timestamp("us")), pa.scalar(None, pa.timestamp("us")))


def difference(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return the whole units from the first time to the second, negative when the second is earlier."""
    per_unit = _per_unit(arguments[0], "timestampdiff")
    begin, end = (pc.cast(stamps(operand), pa.timestamp("us")) for operand in arguments[1:])
    micros = pc.cast(pc.subtract(end, begin), pa.int64())
    if per_unit > 0:
        # Towards zero, so that a unit counts only when it is complete, in both directions.
        return pc.divide(micros, per_unit)
    months = pc.add(
        pc.multiply(pc.subtract(pc.year(end), pc.year(begin)), 12), pc.subtract(pc.month(end), pc.month(begin))
    )
    # A month counts only when the day and time within the month have been reached too.
    late, early = _within_month(end), _within_month(begin)
    months = pc.if_else(pc.and_(pc.greater(months, 0), pc.less(late, early)), pc.subtract(months, 1), months)
    months = pc.if_else(pc.and_(pc.less(months, 0), pc.greater(late, early)), pc.add(months, 1), months)
    return pc.divide(months, -per_unit)


def _within_month(stamp: Values) -> Values:
    return pc.cast(pc.subtract(stamp, pc.floor_temporal(stamp, 1, unit="month")), pa.int64())
