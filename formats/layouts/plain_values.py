"""Values without quotation marks: which of them are JSON numbers, truth values or nulls beyond doubt.

Numbers with an exponent, -0 and everything unusual are not accepted here: the general parser has to read them.
"""

from __future__ import annotations

import numpy as np

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import Bytes, Mask
from penstock.formats.layouts.layout import Words

# Longer values are left to the general parser, which limits the digits of integers.
LONGEST = 64
_NULL, _TRUE, _FALSE = (int.from_bytes(text[:4], "little") for text in (b"null", b"true", b"false"))
_HALF, _BYTE, _LAST_OF_FALSE = np.uint64(0xFFFFFFFF), np.uint64(0xFF), np.uint64(ord("e"))
_ZERO, _MINUS, _POINT = ord("0"), ord("-"), ord(".")
# Eight digits at once: the high half of each byte is 3, also after 6 has been added.
_ZEROS, _HIGH, _SIX = np.uint64(0x3030303030303030), np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x0606060606060606)
_KEPT = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_FILLED = ~_KEPT & _ZEROS


def plain_values(data: Bytes, words: Words, starts: Int64s, sizes: Int64s, first: Words) -> tuple[Mask, Mask]:
    """Return which values are accepted, and which are null.

    `words` has the eight bytes at each position of `data`, `first` those at the begin of each value.
    """
    low = first & _HALF
    nulls: Mask = (low == _NULL) & (sizes == 4)
    # `np.clip` costs several times as much.
    shown = np.maximum(np.minimum(sizes, 8), 0)
    digits = _are_digits((first & _KEPT[shown]) | _FILLED[shown]) & (sizes > 0)
    # A number of more than one digit must not begin with zero.
    digits &= ((first & _BYTE) != _ZERO) | (sizes == 1)
    accepted: Mask = (digits & (sizes <= 8)) | nulls
    rest = np.flatnonzero(~accepted)
    if len(rest):
        accepted[rest] = _longer(data, words, starts[rest], sizes[rest], first[rest], digits[rest])
    return accepted, nulls


def _are_digits(words: Words) -> Mask:
    found: Mask = (((words & _HIGH) ^ _ZEROS) | (((words + _SIX) & _HIGH) ^ _ZEROS)) == 0
    return found


def _longer(data: Bytes, words: Words, starts: Int64s, sizes: Int64s, first: Words, digits: Mask) -> Mask:
    """Return the acceptance of values that are neither null nor up to eight digits; `digits`: of the first eight."""
    fits = digits & (sizes > 8) & (sizes <= 16)
    accepted: Mask = fits & _are_digits(words[np.where(fits, starts + sizes - 8, 0)])
    low = first & _HALF
    accepted |= (low == _TRUE) & (sizes == 4)
    accepted |= (low == _FALSE) & (sizes == 5) & (((first >> np.uint64(32)) & _BYTE) == _LAST_OF_FALSE)
    others = np.flatnonzero(~accepted & (sizes > 0) & (sizes <= LONGEST))
    if len(others):
        accepted[others] = _are_decimals(data, starts[others], sizes[others])
    return accepted


def _are_decimals(data: Bytes, starts: Int64s, sizes: Int64s) -> Mask:
    """Return whether each value is `-?(0|[1-9][0-9]*)(.[0-9]+)?` and not -0. All sizes are positive."""
    ends = np.cumsum(sizes)
    begins = ends - sizes
    text = data[np.repeat(starts - begins, sizes) + np.arange(ends[-1])]
    accepted = _points_and_signs(text, begins, ends)
    negative = text[begins] == _MINUS
    last = len(text) - 1
    digit = begins + negative
    accepted &= digit < ends
    zero = text[np.minimum(digit, last)] == _ZERO
    more = (digit + 1 < ends) & (text[np.minimum(digit + 1, last)] != _POINT)
    accepted &= ~(zero & more) & ~(negative & zero & (digit + 1 == ends))
    return accepted


def _points_and_signs(text: Bytes, begins: Int64s, ends: Int64s) -> Mask:
    """Return whether each value has digits only, but for a sign in front and one point between digits."""
    accepted: Mask = np.ones(len(begins), bool)
    places = np.flatnonzero((text - np.uint8(_ZERO)) > 9)
    of_value = np.searchsorted(ends, places, side="right")
    minus, point = text[places] == _MINUS, text[places] == _POINT
    accepted[of_value[~(minus | point)]] = False
    accepted[of_value[minus & (places != begins[of_value])]] = False
    points, value = places[point], of_value[point]
    if len(points):
        accepted[value[np.append(False, value[1:] == value[:-1])]] = False
        at_edge = (points == begins[value]) | (points == ends[value] - 1) | (text[points - 1] == _MINUS)
        accepted[value[at_edge]] = False
    return accepted
