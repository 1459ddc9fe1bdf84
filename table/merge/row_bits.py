"""Flags of the rows of a sorted run, one bit per row."""

from __future__ import annotations

import numpy as np

from penstock.table.values.buffers import Bytes, Flags

# So many flags are packed at once. Few enough to be in the cache, many enough that a call costs nothing.
_PACKED_ROWS = 1 << 16


class RowBits:
    """Flags that are added in the order of the rows, and then read for ranges of rows."""

    def __init__(self) -> None:
        self._packed: list[Bytes] = []
        self._waiting: list[Flags] = []
        self._waiting_rows = 0

    def add(self, flags: Flags) -> None:
        """Append the flags of the next rows."""
        self._waiting.append(flags)
        self._waiting_rows += len(flags)
        if self._waiting_rows >= _PACKED_ROWS:
            together = np.concatenate(self._waiting)
            # A byte has eight flags. The flags of an incomplete byte wait for the next rows.
            whole = len(together) // 8 * 8
            self._packed.append(np.packbits(together[:whole]))
            self._waiting = [together[whole:]]
            self._waiting_rows = len(together) - whole

    def between(self, start: int, end: int) -> Flags:
        """Return the flags of the rows from `start` to `end`, which is not included. All rows must have been added."""
        if self._waiting_rows or len(self._packed) != 1:
            rest = np.packbits(np.concatenate([np.zeros(0, np.bool_), *self._waiting]))
            self._packed, self._waiting, self._waiting_rows = [np.concatenate([*self._packed, rest])], [], 0
        first = start // 8
        bits = np.unpackbits(self._packed[0][first : (end + 7) // 8])
        return bits[start - 8 * first : end - 8 * first].view(np.bool_)
