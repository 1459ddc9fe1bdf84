"""Local times of time zones: from instants, and back.

Arrow reads the tables of time zones, which end with 2037, and not the rules behind them. Later times are converted by
these rules.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FIRST = 2_114_380_800  # 2037-01-01 00:00:00 UTC
_CYCLE = 146_097 * 86_400  # after 400 years the calendar repeats, with its days of the week
_STEP = 900  # clocks change at full quarters of an hour
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- it gets the zone of the clocks


def wall_clock(array: pa.Array, zone: str) -> pa.Array:
    """Return the local time of `zone` at these instants, which are timestamps in UTC."""
    if zone == "UTC":  # needs no time zone database, which slim container images lack
        return array.view(pa.timestamp(array.type.unit))
    shown = _shown(array, zone)
    return _corrected(array, shown, zone, 1, lambda at, place: at.replace(tzinfo=UTC).astimezone(place).utcoffset())


def instants(array: pa.Array, zone: str) -> pa.Array:
    """Return the instants at which clocks in `zone` show these local times.

    A local time that occurs twice is converted to the earlier instant. A local time that clocks skip is converted with
    the offset before the gap: 02:30 in a gap of an hour is 03:30.
    """
    if zone == "UTC":
        return array.view(pa.timestamp(array.type.unit, "UTC"))
    known = _instants(array, zone)
    return _corrected(array, known, zone, -1, lambda at, place: at.replace(tzinfo=place).utcoffset())


def _shown(array: pa.Array, zone: str) -> pa.Array:
    return pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, zone)))


def _instants(array: pa.Array, zone: str) -> pa.Array:
    unit = array.type.unit
    known = pc.assume_timezone(array, zone, ambiguous="earliest", nonexistent="latest").cast(pa.timestamp(unit, "UTC"))
    shown = _shown(known, zone)
    if shown.equals(array):
        return known
    # For a skipped time, `known` is the end of the gap. One unit earlier the old offset was in effect: continue
    # counting from there.
    before = pc.subtract(known, pa.scalar(1, pa.duration(unit)))
    skipped = pc.subtract(array, _shown(before, zone))
    return pc.if_else(pc.not_equal(shown, array), pc.add(before, skipped), known)


def _corrected(
    times: pa.Array, converted: pa.Array, zone: str, sign: int, offset: Callable[[datetime, ZoneInfo], timedelta | None]
) -> pa.Array:
    """Return the converted times, with those from 2037 on by the rules of the zone."""
    per_second = _PER_SECOND[times.type.unit]
    values = pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    late = values >= _FIRST * per_second
    if not late.any():
        return converted
    try:
        place = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):  # an offset such as +05:30, which has no rules
        return converted
    steps = (values[late] // per_second - _FIRST) % _CYCLE // _STEP
    distinct, which = np.unique(steps, return_inverse=True)
    moments = (_EPOCH + timedelta(seconds=_FIRST + int(step) * _STEP) for step in distinct)
    seconds = np.array([round((offset(at, place) or timedelta()).total_seconds()) for at in moments], np.int64)
    shift = np.zeros(len(values), np.int64)
    shift[late] = sign * seconds[which] * per_second
    moved = pc.add(times.view(converted.type), pa.array(shift).view(pa.duration(times.type.unit)))
    return pc.if_else(pa.array(late), moved, converted)
