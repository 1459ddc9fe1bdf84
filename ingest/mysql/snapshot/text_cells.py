"""The text cells of a column in a block of rows, and the numbers that their digits stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.ingest.database.buffers import at_every_byte, slices

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bools, Bytes, Int64s

UInt64s = npt.NDArray[np.uint64]
# Enough for a DATETIME(6) whose fraction is read in one word, and for the longest number.
HEAD = 28
_VIEW = 16  # bytes that are needed to refer to a text
_ZEROS = np.uint64(0x3030303030303030)
_EIGHT = 8
_POWERS = np.uint64(10) ** np.arange(_EIGHT + 1, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class TextCells:
    """The start, length and nullness of cells. The buffer ends with spare bytes.

    `head` are the first bytes of each cell, if they were fetched with its length.
    """

    data: Bytes
    start: Int64s
    length: Int64s
    null: Bools
    head: Bytes | None = None

    def readable(self) -> TextCells:
        """Return the cells with nulls as empty texts at the start of the buffer."""
        if not self.null.any():
            return self
        start, length = np.where(self.null, 0, self.start), np.where(self.null, 0, self.length)
        return TextCells(self.data, start, length, self.null, self.head)

    def word(self, at: int) -> UInt64s:
        """Return the eight bytes of each cell from this one, which may extend beyond it; the first is the lowest."""
        if self.head is not None and at + _EIGHT <= self.head.shape[1]:
            return np.ascontiguousarray(self.head[:, at : at + _EIGHT].view("<u8")[:, 0])
        words: UInt64s = at_every_byte(self.data, "<u8")[self.start + at]
        return words

    def after(self, first: int, length: Int64s) -> TextCells:
        """Return the texts of this length that begin so many bytes later."""
        head = None if self.head is None else self.head[:, first:]
        return TextCells(self.data, self.start + first, length, self.null, head)

    def values(self, kind: pa.DataType) -> pa.Array:
        """Return the cells as binaries, or as strings that are not checked."""
        head = self.head if self.head is not None and self.head.shape[1] >= _VIEW else None
        return slices(kind, self.data, self.start, self.length, self.null, head)


def signs(cells: TextCells) -> tuple[Bools, TextCells]:
    """Return whether each cell begins with a minus, and the cells without it."""
    first = cells.data[cells.start] if cells.head is None else cells.head[:, 0]
    negative: Bools = (first == ord("-")) & (cells.length > 0)
    if not negative.any():
        return negative, cells
    return negative, TextCells(cells.data, cells.start + negative, cells.length - negative, cells.null)


def magnitudes(cells: TextCells) -> UInt64s:
    """Return the values of texts that consist of up to 20 digits; an empty text is zero."""
    longest = int(cells.length.max()) if len(cells.length) else 0
    total = _eight(cells.word(0), np.minimum(cells.length, _EIGHT))
    for at in range(_EIGHT, longest, _EIGHT):
        size = np.clip(cells.length - at, 0, _EIGHT)
        total = total * _POWERS[size] + _eight(cells.word(at), size)
    return total


def _eight(word: UInt64s, size: Int64s) -> UInt64s:
    """Return the value of up to eight digits in the low bytes of a word, the first digit in the lowest byte."""
    # Digits become numbers and shift up, zeros fill in below, and what followed the text drops out. A shift by all 64
    # bits makes zero in numpy, which is right for an empty text.
    word = (word ^ _ZEROS) << (64 - 8 * size).view(np.uint64)
    # Join pairs of digits, then pairs of pairs, then both halves: three multiplications for eight digits.
    word = word * np.uint64(10) + (word >> np.uint64(8))
    low, high = np.uint64(0x000000FF000000FF), np.uint64(16)
    # Each factor has one number per half: 1,000,000 and 100, then 10,000 and 1. The upper half of a product is the
    # sum of both parts with their weights.
    first = (word & low) * np.uint64(0x000F424000000064)
    second = (word >> high & low) * np.uint64(0x0000271000000001)
    return (first + second) >> np.uint64(32)
