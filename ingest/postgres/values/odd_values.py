"""Values of cells that a table cannot store. They are counted, and become null or are reduced to what it can store."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from penstock.byte_buffers import has_any

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Int64s
    from penstock.ingest.postgres.relation import PgType

# The names by which they are counted.
INFINITY, NOT_A_NUMBER, TOO_LARGE, OUT_OF_DAY = "infinity", "not-a-number", "number-too-large", "time-out-of-day"
ARRAY_SHAPE = "array-of-several-dimensions"
# Of a BIT VARYING whose bits do not fill their bytes: as bytes, 1 and 01 are equal.
BIT_LENGTH = "bit-string-without-its-length"


def nulled(null: Bools, odd: Bools, reason: str, oddities: Counter[str]) -> Bools:
    """Return the nulls with the odd values added, which are counted."""
    if not has_any(odd):
        return null
    odd = odd & ~null
    if not has_any(odd):
        return null
    oddities[reason] += int(odd.sum())
    return null | odd


def note_lengths(kind: PgType, bits: Int64s, oddities: Counter[str]) -> None:
    """Count values of BIT VARYING if their bytes, or true and false, do not determine the number of bits."""
    if kind.name == "varbit":
        lost = np.count_nonzero(bits == 0 if kind.size == 1 else bits % 8)
        if lost:
            oddities[BIT_LENGTH] += int(lost)
