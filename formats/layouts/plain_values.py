"""Recognizes JSON numbers, truth values and nulls among the values without quotation marks.

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
# Eight bytes at once. Digits less zeros are up to nine: their high bit is not set, also after 0x76 has been added.
_ZEROS, _NINES, _TOP = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676), np.uint64(0x8080808080808080)
_KEPT = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_SIGN, _DOT = np.uint64(_MINUS ^ _ZERO), np.uint64(_POINT ^ _ZERO)
# The high bits of the first and of the last byte, by the number of bytes.
_TOP_OF_EDGES = np.array([0, *(0x80 | 0x80 << 8 * size for size in range(8))], np.uint64)
_TOP_OF_SECOND = np.uint64(0x8000)
_ONE, _SEVEN, _EIGHT = np.uint64(1), np.uint64(7), np.uint64(8)


def plain_values(data: Bytes, words: Words, starts: Int64s, sizes: Int64s) -> tuple[Mask, Int64s]:
    """Return which values are accepted, and the places of those that are null. All sizes are positive.

    `words` has the eight bytes at each position of `data`.
    """
    shown = np.minimum(sizes, 8)  # `np.clip` costs several times as much
    digits = words[starts]
    digits ^= _ZEROS
    digits &= _KEPT[shown]
    accepted = _are_unsigned(digits, _not_digits(digits), shown)
    accepted &= sizes <= 8
    left = np.flatnonzero(~accepted)
    if not len(left):
        return accepted, left
    sizes, digits = sizes[left], digits[left]
    found: Mask = np.zeros(len(left), bool)
    long = np.flatnonzero((sizes > 8) & (sizes <= LONGEST))
    if len(long):
        found[long] = _are_long(data, words, digits[long], starts[left[long]], sizes[long])
    short = np.flatnonzero(sizes <= 8)
    nulls, found[short] = _others(digits[short], sizes[short])
    accepted[left] = found
    return accepted, left[short[nulls]]


def _are_unsigned(digits: Words, others: Words, sizes: Int64s) -> Mask:
    """Return whether values of up to eight bytes are `(0|[1-9][0-9]*)(.[0-9]+)?`.

    Given are the digits less zeros, and the high bit of each byte that is no digit.
    """
    point = others >> _SEVEN
    # All bytes are digits, or one is a point, which is neither the first nor the last.
    accepted: Mask = (digits & (point * _BYTE)) == point * _DOT
    accepted &= (others & (others - _ONE)) == 0
    accepted &= (others & _TOP_OF_EDGES[sizes]) == 0
    # A number of more than one digit must not begin with zero.
    accepted &= ((digits & _BYTE) != 0) | (others == _TOP_OF_SECOND) | (sizes == 1)
    return accepted


def _are_long(data: Bytes, words: Words, digits: Words, starts: Int64s, sizes: Int64s) -> Mask:
    """Return whether values of more than eight bytes are numbers; `digits`: their first eight bytes."""
    accepted: Mask = (_not_digits(digits) | _not_digits(words[starts + sizes - 8] ^ _ZEROS)) == 0
    accepted &= ((digits & _BYTE) != 0) & (sizes <= 16)
    left = np.flatnonzero(~accepted)
    if len(left):
        accepted[left] = _are_decimals(data, starts[left], sizes[left])
    return accepted


def _others(digits: Words, sizes: Int64s) -> tuple[Mask, Mask]:
    """Return which values of up to eight bytes are null, and which are null, a truth value or a negative number."""
    first = digits ^ (_ZEROS & _KEPT[sizes])
    low = first & _HALF
    four: Mask = sizes == 4
    nulls: Mask = four & (low == _NULL)
    accepted = nulls | (four & (low == _TRUE))
    accepted |= (first >> np.uint64(32) == _LAST_OF_FALSE) & (low == _FALSE) & (sizes == 5)
    negative = np.flatnonzero(((digits & _BYTE) == _SIGN) & (sizes > 1))
    if len(negative):
        rest = digits[negative] >> _EIGHT
        # Not -0, but -0.5.
        accepted[negative] = _are_unsigned(rest, _not_digits(rest), sizes[negative] - 1) & (rest != 0)
    return nulls, accepted


def _not_digits(digits: Words) -> Words:
    """Return the high bit of each byte that is no digit, given digits less zeros."""
    found = digits + _NINES
    found |= digits
    found &= _TOP
    return found


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
