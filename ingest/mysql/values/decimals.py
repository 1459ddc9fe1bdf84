"""Decoding of packed DECIMAL: groups of nine digits, by arithmetic on whole columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import has_any
from penstock.ingest.database.buffers import EvenPlaces, as_128_bits, big_endian_at, fixed, gathered, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.database.buffers import Places, UInt64s

MAX_PRECISION = 38  # of decimal128 and of Paimon; a wider column is text
_WORD = 8  # bytes
# Bytes of a group by its number of digits: nine digits take four bytes.
_BYTES_OF_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def packed_size(precision: int, scale: int) -> int:
    """Return the number of bytes of a packed DECIMAL."""
    return sum(_BYTES_OF_DIGITS[digits] for digits in _groups(precision, scale))


def _groups(precision: int, scale: int) -> Iterator[int]:
    """Yield the digits of each group: the short integer group first, the short fraction group last."""
    whole, whole_rest = divmod(precision - scale, 9)
    part, part_rest = divmod(scale, 9)
    yield whole_rest
    yield from [9] * (whole + part)
    yield part_rest


def decimals(data: Bytes, start: Places, null: Bools, precision: int, scale: int) -> pa.Array:
    """Return decimal128 values of the packed cells, or text for columns too wide for it."""
    width = packed_size(precision, scale)
    if width <= _WORD:
        return fixed(pa.decimal128(precision, scale), _of_words(data, start, null, precision, scale), null)
    packed = gathered(data, start.positions if isinstance(start, EvenPlaces) else start, width)
    # Stored so that bytes sort like values: the top bit is inverted, and of negative numbers all bits are.
    negative = packed[:, 0] < 0x80
    packed[:, 0] ^= 0x80
    packed[negative] ^= 0xFF
    groups = list(_group_values(packed, precision, scale))
    _check_digits(groups, null, precision, scale)
    if precision > MAX_PRECISION:
        return _plain_texts(groups, negative, null, precision, scale)
    return fixed(pa.decimal128(precision, scale), as_128_bits(groups, negative), null)


def _of_words(data: Bytes, start: Places, null: Bools, precision: int, scale: int) -> UInt64s:
    """Return the 128 bits of values whose packed form fits into a word."""
    width = packed_size(precision, scale)
    word = big_endian_at(data, start, width)
    # As below: the top bit is inverted, and of negative numbers all bits are.
    word ^= np.uint64(1 << 8 * width - 1)
    negative = word >> np.uint64(8 * width - 1) > 0
    if has_any(negative):
        word[negative] ^= np.uint64((1 << 8 * width) - 1)
    groups, left = [], 8 * width
    for digits in _groups(precision, scale):
        if size := 8 * _BYTES_OF_DIGITS[digits]:
            left -= size
            groups.append((digits, (word >> np.uint64(left) & np.uint64((1 << size) - 1)).view(np.int64)))
    _check_digits(groups, null, precision, scale)
    return as_128_bits(groups, negative)


def _check_digits(groups: list[tuple[int, Int64s]], null: Bools, precision: int, scale: int) -> None:
    """Raise ValueError for a group of more than its digits, which its bytes have room for only in a damaged cell."""
    present = ~null if has_any(null) else slice(None)
    if any(int(values[present].max(initial=0)) >= 10**digits for digits, values in groups):
        raise ValueError(f"a DECIMAL({precision}, {scale}) value has too many digits")


def _group_values(packed: Bytes, precision: int, scale: int) -> Iterator[tuple[int, Int64s]]:
    # The matrix is read as one buffer; spare bytes keep the read of the last cell inside.
    flat = np.concatenate([packed.reshape(-1), np.zeros(8, np.uint8)])
    at = np.arange(len(packed), dtype=np.int64) * packed.shape[1]
    for digits in _groups(precision, scale):
        if size := _BYTES_OF_DIGITS[digits]:
            yield digits, big_endian_at(flat, at, size).astype(np.int64)
            at = at + size


def _plain_texts(
    groups: list[tuple[int, Int64s]], negative: Bools, null: Bools, precision: int, scale: int
) -> pa.Array:
    """Return the digits as the server prints them: no leading zeros, all fraction digits."""
    whole = precision - scale
    digits = np.empty((len(negative), precision), np.uint8)
    column = 0
    for size, value in groups:
        for place in range(column + size - 1, column - 1, -1):
            value, digit = np.divmod(value, 10)
            digits[:, place] = digit
        column += size
    # A line per value: sign, integer digits, point, fraction. `keep` marks the characters that are printed.
    width = 1 + max(whole, 1) + (1 + scale if scale else 0)
    matrix = np.zeros((len(negative), width), np.uint8)
    matrix[:, 1 + max(whole, 1) - whole : 1 + max(whole, 1)] = digits[:, :whole]
    matrix[:, width - scale :] = digits[:, whole:]
    keep = np.ones(matrix.shape, np.bool_)
    keep[:, 0] = negative
    keep[:, 1 : max(whole, 1)] = np.logical_or.accumulate(matrix[:, 1 : max(whole, 1)] > 0, axis=1)
    matrix += ord("0")
    matrix[:, 0] = ord("-")
    if scale:
        matrix[:, width - scale - 1] = ord(".")
    return texts(matrix, keep, null)
