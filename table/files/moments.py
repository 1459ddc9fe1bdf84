"""Timestamps assembled from seconds and nanoseconds, as ORC and INT96 columns of Parquet store them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.table.files.errors import TimestampOutOfRange
from penstock.table.values.buffers import Ints, validity

UNIT_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_LAST_SECOND = 2**63 // 10**9


def moments(like: pa.Array, seconds: Ints, nanos: Ints, target: pa.DataType, column: str) -> pa.Array:
    """Return timestamps with the nulls of `like`. `nanos` may be negative, or more than a second.

    TimestampOutOfRange when the target has nanoseconds and a value exceeds their range of years.
    """
    present = validity(like)
    if present is not None:
        seconds, nanos = np.where(present, seconds, 0), np.where(present, nanos, 0)
    unit = UNIT_NANOS[target.unit]
    if unit == 1:
        _refuse_out_of_range(seconds + nanos // 10**9, column)
    values = np.zeros(like.offset + len(like), np.int64)
    values[like.offset :] = seconds * (10**9 // unit) + nanos // unit
    buffers = [like.buffers()[0], pa.py_buffer(values)]
    return pa.Array.from_buffers(target, len(like), buffers, like.null_count, like.offset)


def _refuse_out_of_range(seconds: Ints, column: str) -> None:
    if len(seconds) and (seconds.max() >= _LAST_SECOND or seconds.min() < -_LAST_SECOND):
        raise TimestampOutOfRange(
            "a TIMESTAMP of nanoseconds is outside of 1677-09-21 to 2262-04-11, the range of Arrow",
            column=column,
            hint="change the type of the column to TIMESTAMP(6), which truncates the last three digits",
        )
