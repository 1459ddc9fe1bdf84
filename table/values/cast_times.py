"""Casts between dates, times and timestamps, and to and from seconds since 1970.

Java stores a timestamp as milliseconds plus the nanoseconds within the millisecond. Where it divides the milliseconds,
it truncates toward zero, which makes a difference before 1970. Times of day are the exception here: in Java they would
become negative.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.local_times import instants, wall_clock
from penstock.table.values.arrow_types import timestamp_unit, to_arrow
from penstock.table.values.buffers import Ints, array_like, fixed_values
from penstock.table.values.types import AtomicType

DAY = 86_400_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def cast_time(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    """Cast between DATE, TIME and timestamps, and from numbers of seconds, with Java's arithmetic."""
    if source.root in {"INT", "BIGINT"}:
        with np.errstate(over="ignore"):
            millis = np.asarray(fixed_values(array, np.int32 if source.root == "INT" else np.int64), np.int64) * 1000
        return _stamps(millis, array, target)
    if target.root in {"INT", "BIGINT"}:
        seconds = toward_zero(_millis(array), 1000)
        return array_like(seconds.astype(np.int32 if target.root == "INT" else np.int64), array, to_arrow(target))
    if target.root in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        return _to_stamp(array, source, target, zone)
    millis = _millis(wall_clock(array, zone) if source.root == "TIMESTAMP_LTZ" else array)
    if target.root == "TIME":
        return array_like((millis % DAY).astype(np.int32), array, to_arrow(target))
    # For TIMESTAMP_LTZ Java computes a calendar date, which rounds down; for TIMESTAMP it divides the milliseconds.
    days = millis // DAY if source.root == "TIMESTAMP_LTZ" else toward_zero(millis, DAY)
    return array_like(days.astype(np.int32), array, to_arrow(target))


def _to_stamp(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    if source.root in {"DATE", "TIME"}:
        step = DAY if source.root == "DATE" else 1
        millis = np.asarray(fixed_values(array, np.int32), np.int64) * step
        wall = _stamps(millis, array, AtomicType("TIMESTAMP", precision=target.precision))
        return instants(wall, zone) if target.root == "TIMESTAMP_LTZ" else wall
    if source.root != target.root:
        array = instants(array, zone) if target.root == "TIMESTAMP_LTZ" else wall_clock(array, zone)
    return array if target.precision >= source.precision and array.type == to_arrow(target) else _cut(array, target)


def _cut(array: pa.Array, target: AtomicType) -> pa.Array:
    """Truncate timestamps to the target's precision and convert them to its unit."""
    if target.precision <= 3:
        step = 10 ** (3 - target.precision)
        return _stamps(toward_zero(_millis(array), step) * step, array, target)
    # Above precision 3 Java shortens the nanoseconds within the millisecond, which are never negative. So the value
    # moves toward the past here, and toward zero above.
    per_digit = _PER_SECOND[array.type.unit] // 10**target.precision
    if per_digit > 1:
        values = fixed_values(array, np.int64)
        array = array_like(np.asarray(values, np.int64) // per_digit * per_digit, array, array.type)
    return array.cast(to_arrow(target))


def _stamps(millis: Ints, model: pa.Array, target: AtomicType) -> pa.Array:
    zone = "UTC" if target.root == "TIMESTAMP_LTZ" else None
    array = array_like(millis, model, pa.timestamp("ms", zone))
    # Arrow's cast to seconds raises an error when milliseconds are lost, so they are removed first.
    if timestamp_unit(target.precision) == "s":
        return array_like(millis // 1000, model, pa.timestamp("s", zone))
    return array.cast(to_arrow(target))


def _millis(array: pa.Array) -> Ints:
    values: Ints = np.asarray(fixed_values(array, np.int64), np.int64)
    per_second = _PER_SECOND[array.type.unit]
    return values * 1000 if per_second == 1 else values // (per_second // 1000)


def toward_zero(values: Ints, divisor: int) -> npt.NDArray[np.int64]:
    """Divide like Java: the quotient is truncated, not rounded down."""
    return np.asarray(np.where(values < 0, -(-values // divisor), values // divisor), np.int64)
