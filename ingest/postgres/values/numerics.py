"""Decoding of binary NUMERIC: digits of base 10,000 with a weight, by arithmetic on whole columns."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.ingest.database.buffers import as_128_bits, at_every_byte, fixed
from penstock.ingest.postgres.values.cells import NOT_A_NUMBER, TOO_LARGE, Cells, nulled

if TYPE_CHECKING:
    from penstock.ingest.postgres.types import PgType

_NEGATIVE, _SPECIAL = 0x4000, 0xC000
_HEADER = 8


def numerics(cells: Cells, kind: PgType, oddities: Counter[str]) -> pa.Array:
    """Return decimals; NaN, infinities, and numbers that do not fit become null and are counted."""
    precision, scale = kind.decimal or (0, 0)
    count, weight, sign = (at_every_byte(cells.data, layout)[cells.start + at].astype(np.int64) for layout, at in _HEAD)
    null = nulled(cells.null, (sign & _SPECIAL) == _SPECIAL, NOT_A_NUMBER, oddities)
    count = np.where(null, 0, count)
    whole, part = -(-(precision - scale) // 4), -(-scale // 4)
    digits = at_every_byte(cells.data, ">i2")
    groups, spare = [], np.zeros(len(cells), np.bool_)
    for place in range(whole - 1, -part - 1, -1):
        number = weight - place
        inside = (number >= 0) & (number < count)
        at = np.where(inside, cells.start + _HEADER + 2 * number, 0)
        group = np.where(inside, digits[at], 0).astype(np.int64)
        size = 4
        if place == -part and scale % 4:
            size = scale % 4
            group, rest = np.divmod(group, 10 ** (4 - size))
            spare |= rest > 0
        groups.append((size, group))
    top = (precision - scale) % 4
    # Digits before the first place and after the last one; both exist only in a NUMERIC without a declared size.
    spare |= (count > 0) & ((weight >= whole) | (weight - count + 1 < -part))
    if top and whole:
        spare |= groups[0][1] >= 10**top
    null = nulled(null, spare, TOO_LARGE, oddities)
    return fixed(pa.decimal128(precision, scale), as_128_bits(groups, sign == _NEGATIVE), null)


_HEAD = ((">i2", 0), (">i2", 2), (">u2", 4))
