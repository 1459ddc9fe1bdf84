"""Values of cells that a table cannot store. They become null and are counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bools

# The names by which they are counted.
INFINITY, NOT_A_NUMBER, TOO_LARGE, OUT_OF_DAY = "infinity", "not-a-number", "number-too-large", "time-out-of-day"
ARRAY_SHAPE = "array-of-several-dimensions"


def nulled(null: Bools, odd: Bools, reason: str, oddities: Counter[str]) -> Bools:
    """Return the nulls with the odd values added, which are counted."""
    odd = odd & ~null
    if not odd.any():
        return null
    oddities[reason] += int(odd.sum())
    return null | odd
