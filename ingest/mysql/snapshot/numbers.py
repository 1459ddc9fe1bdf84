"""Decimal digits to numbers, eight at a time, for whole columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock.ingest.mysql.byte_view import at_every_byte

if TYPE_CHECKING:
    from penstock.ingest.mysql.byte_view import Bools, Bytes, Int64s

UInt64s = npt.NDArray[np.uint64]
_ZEROS = np.uint64(0x3030303030303030)
_EIGHT = 8


def signs(data: Bytes, start: Int64s, length: Int64s) -> tuple[Bools, Int64s, Int64s]:
    """Whether a minus stands first, and the cells without it."""
    negative: Bools = (data[start] == ord("-")) & (length > 0)
    return negative, start + negative, length - negative


def magnitudes(data: Bytes, start: Int64s, length: Int64s) -> UInt64s:
    """The values of texts of digits alone, up to 20 of them; no digits are zero."""
    words = at_every_byte(data, "<u8")
    longest = int(length.max()) if len(length) else 0
    total = np.zeros(len(length), np.uint64)
    # From the front in pieces that end on a multiple of eight from the back, so that every piece but one is whole.
    for behind in range((longest - 1) // _EIGHT * _EIGHT, -1, -_EIGHT):
        size = np.clip(length - behind, 0, _EIGHT)
        value = _eight(words[np.where(size > 0, start + length - behind - size, 0)], size)
        total = total * np.uint64(10**_EIGHT) + value
    return total


def _eight(word: UInt64s, size: Int64s) -> UInt64s:
    """Up to eight digits in the low bytes of a word, the first digit lowest."""
    shift = (8 * (_EIGHT - size)).astype(np.uint64) & np.uint64(63)
    # Digits move up, zeros fill in below: the text right-aligned. No digit at all is a zero.
    word = word << shift | _ZEROS & ((np.uint64(1) << shift) - np.uint64(1))
    word = np.where(size == 0, _ZEROS, word) - _ZEROS
    # Pairs of digits, pairs of pairs, and both halves: three multiplications for eight digits.
    word = word * np.uint64(10) + (word >> np.uint64(8))
    low, high = np.uint64(0x000000FF000000FF), np.uint64(16)
    first = (word & low) * np.uint64(0x000F424000000064)
    second = (word >> high & low) * np.uint64(0x0000271000000001)
    return (first + second) >> np.uint64(32)
