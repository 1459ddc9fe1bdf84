"""Conversion of decimal digits to numbers, eight at a time, for whole columns."""

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
    """Return whether each cell begins with a minus, and the cells without it."""
    negative: Bools = (data[start] == ord("-")) & (length > 0)
    return negative, start + negative, length - negative


def magnitudes(data: Bytes, start: Int64s, length: Int64s) -> UInt64s:
    """Return the values of texts that consist of up to 20 digits; an empty text is zero."""
    words = at_every_byte(data, "<u8")
    longest = int(length.max()) if len(length) else 0
    total = np.zeros(len(length), np.uint64)
    # From the front, in pieces whose boundaries are multiples of eight from the back, so that all but the first are
    # full.
    for behind in range((longest - 1) // _EIGHT * _EIGHT, -1, -_EIGHT):
        size = np.clip(length - behind, 0, _EIGHT)
        value = _eight(words[np.where(size > 0, start + length - behind - size, 0)], size)
        total = total * np.uint64(10**_EIGHT) + value
    return total


def _eight(word: UInt64s, size: Int64s) -> UInt64s:
    """Return the value of up to eight digits in the low bytes of a word, the first digit in the lowest byte."""
    shift = (8 * (_EIGHT - size)).astype(np.uint64) & np.uint64(63)
    # Digits shift up, zeros fill in below: the text becomes right-aligned. An empty text becomes zero.
    word = word << shift | _ZEROS & ((np.uint64(1) << shift) - np.uint64(1))
    word = np.where(size == 0, _ZEROS, word) - _ZEROS
    # Join pairs of digits, then pairs of pairs, then both halves: three multiplications for eight digits.
    word = word * np.uint64(10) + (word >> np.uint64(8))
    low, high = np.uint64(0x000000FF000000FF), np.uint64(16)
    first = (word & low) * np.uint64(0x000F424000000064)
    second = (word >> high & low) * np.uint64(0x0000271000000001)
    return (first + second) >> np.uint64(32)
