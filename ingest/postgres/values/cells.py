"""The cells of one column, wherever they come from: positions in a buffer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bools, Bytes, Int64s

# Values that a table cannot store become null and are counted by these names.
INFINITY, NOT_A_NUMBER, TOO_LARGE, OUT_OF_DAY = "infinity", "not-a-number", "number-too-large", "time-out-of-day"
ARRAY_SHAPE = "array-of-several-dimensions"


@dataclass(frozen=True, slots=True)
class Cells:
    """The start, length and nullness of the cells of a column. The buffer ends with spare bytes."""

    data: Bytes
    start: Int64s
    length: Int64s
    null: Bools

    def __len__(self) -> int:
        return len(self.start)

    def chosen(self, index: Int64s | Bools) -> Cells:
        return Cells(self.data, self.start[index], self.length[index], self.null[index])

    def shifted(self, first: int) -> Cells:
        """Return the cells without their first bytes."""
        return Cells(self.data, self.start + first, np.maximum(self.length - first, 0), self.null)

    def safe(self) -> Cells:
        """Return the cells with the position of nulls at the start of the buffer, so that they can be read."""
        if not self.null.any():
            return self
        return Cells(self.data, np.where(self.null, 0, self.start), np.where(self.null, 0, self.length), self.null)


def nulled(null: Bools, odd: Bools, reason: str, oddities: Counter[str]) -> Bools:
    """Return the nulls with the odd values added, which are counted."""
    odd = odd & ~null
    if not odd.any():
        return null
    oddities[reason] += int(odd.sum())
    return null | odd
