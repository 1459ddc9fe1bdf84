"""Decimals of 128 bits as text, with the digits that they were stored with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import Bools, Bytes, Int64s, at_every_byte
from penstock.ingest.database.buffers import fixed, gathered
from penstock.ingest.mongodb.bson.text_columns import in_places

_EXPONENT_BIAS, _MOST_SCALE = 6176, 37


def decimal_digits(data: Bytes, start: Int64s) -> pa.Array:
    """Return decimals as text, with the digits they were stored with: 1.10 is not 1.1."""
    words = at_every_byte(data, "<u8")
    low, high = words[start], words[start + 8]
    negative = (high >> np.uint64(63)).astype(np.bool_)
    scale = _EXPONENT_BIAS - ((high >> np.uint64(49)) & np.uint64(0x3FFF)).astype(np.int64)
    # The coefficient fits into 63 bits, and the form is the usual one: infinities have bits 62 and 61 set.
    simple = ((high & np.uint64((1 << 49) - 1)) == 0) & (low >> np.uint64(63) == 0)
    simple &= (high >> np.uint64(61) & np.uint64(3)) != 3
    simple &= (scale >= 0) & (scale <= _MOST_SCALE) & ~(negative & (low == 0))
    pieces: list[pa.Array] = []
    places: list[Int64s] = []
    for digits in np.unique(scale[simple]).tolist():
        chosen = np.flatnonzero(simple & (scale == digits))
        pieces.append(_of_scale(low[chosen].astype(np.int64), negative[chosen], digits))
        places.append(chosen)
    others = np.flatnonzero(~simple)
    if len(others):
        pieces.append(_unusual_decimals(data, start[others]))
        places.append(others)
    return in_places(pieces, places, len(start))


def _of_scale(coefficient: Int64s, negative: Bools, scale: int) -> pa.Array:
    value = np.where(negative, -coefficient, coefficient)
    halves = np.stack([value, value >> 63], axis=1)
    kind = pa.decimal128(38, scale)
    # Arrow writes an exponent where Java does: below 10^-6.
    return fixed(kind, halves, np.zeros(len(value), bool)).cast(pa.string())


def _unusual_decimals(data: Bytes, start: Int64s) -> pa.Array:
    from bson.decimal128 import Decimal128

    found = gathered(data, start, 16)
    return pa.array([str(Decimal128.from_bid(number.tobytes())) for number in found], pa.string())
