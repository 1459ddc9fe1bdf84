"""The numbers that the digits of text cells stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock.byte_buffers import has_any
from penstock.ingest.database.cells import Cells

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Int64s

UInt64s = npt.NDArray[np.uint64]
_ZERO, _ZEROS = 0x30, np.uint64(0x3030303030303030)
_FOUR, _EIGHT = 4, 8
_POWERS = np.uint64(10) ** np.arange(_EIGHT + 1, dtype=np.uint64)


def word(cells: Cells, at: int) -> UInt64s:
    """Return the eight bytes of each cell from this one, which may extend beyond it; the first is the lowest."""
    return np.ascontiguousarray(cells.read("<u8", at))


def signs(cells: Cells) -> tuple[Bools, Cells]:
    """Return whether each cell begins with a minus, and the cells without it."""
    negative: Bools = cells.read("u1") == ord("-")
    if not has_any(negative):
        return negative, cells
    negative &= cells.length > 0
    return negative, Cells(cells.data, cells.start + negative, cells.length - negative, cells.null)


def magnitudes(cells: Cells) -> UInt64s:
    """Return the values of texts that consist of up to 20 digits; an empty text is zero."""
    longest = int(cells.length.max(initial=0))
    if longest <= 1:
        return (cells.read("u1") ^ np.uint8(_ZERO)) * cells.length.view(np.uint64)
    if longest <= _FOUR:
        return _four(np.ascontiguousarray(cells.read("<u4")), cells.length)
    total = _eight(word(cells, 0), cells.length if longest <= _EIGHT else np.minimum(cells.length, _EIGHT))
    for at in range(_EIGHT, longest, _EIGHT):
        size = np.clip(cells.length - at, 0, _EIGHT)
        total = total * _POWERS[size] + _eight(word(cells, at), size)
    return total


def _four(word: npt.NDArray[np.uint32], size: Int64s) -> UInt64s:
    """Return the value of up to four digits in the low bytes of a word, as `_eight` does."""
    word = (word ^ np.uint32(_ZEROS & np.uint64(0xFFFFFFFF))) << (32 - 8 * size).astype(np.uint32)
    word = word * np.uint32(10) + (word >> np.uint32(8))
    return ((word & np.uint32(0xFF)) * np.uint32(100) + (word >> np.uint32(16) & np.uint32(0xFF))).astype(np.uint64)


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
