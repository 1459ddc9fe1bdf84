"""Time zones from 2037 on, for which Arrow has no rules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from penstock.table.values.buffers import array_like, fixed_values

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FIRST = 2_114_380_800  # 2037-01-01 00:00:00 UTC
_CYCLE = 146_097 * 86_400  # after 400 years the calendar repeats, with its days of the week
_STEP = 900  # clocks change at full quarters of an hour
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- it gets the zone of the clocks


def late_wall_clock(instants: pa.Array, shown: pa.Array, zone: str) -> pa.Array:
    """Return the local times `shown` at the instants, with those from 2037 on by the rules of the zone.

    Arrow reads the table of a zone, which ends with 2037, and not the rule behind it: in later summers it is wrong by
    an hour.
    """
    return _corrected(instants, shown, zone, 1, lambda at, place: at.replace(tzinfo=UTC).astimezone(place).utcoffset())


def late_instants(local: pa.Array, instants: pa.Array, zone: str) -> pa.Array:
    """Return the instants of local times, with those from 2037 on by the rules of the zone.

    As everywhere, a local time that occurs twice is the earlier instant, and one that clocks skip continues with the
    offset before the gap.
    """
    return _corrected(local, instants, zone, -1, lambda at, place: at.replace(tzinfo=place).utcoffset())


def _corrected(
    times: pa.Array, converted: pa.Array, zone: str, sign: int, offset: Callable[[datetime, ZoneInfo], timedelta | None]
) -> pa.Array:
    values = np.asarray(fixed_values(times, np.int64), np.int64)
    per_second = _PER_SECOND[times.type.unit]
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
    corrected = np.array(fixed_values(converted, np.int64), np.int64)
    corrected[late] = values[late] + sign * seconds[which] * per_second
    return array_like(corrected, converted, converted.type)
