"""Conversion of text cells to Arrow, a whole column at a time; the values are the same as from binlog cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.ingest.database.buffers import as_128_bits, at_every_byte, fixed, gathered, slices
from penstock.ingest.mysql.definition import BYTES, GEOMETRIES, INTEGER_BYTES
from penstock.ingest.mysql.server.charsets import CHARSETS
from penstock.ingest.mysql.values import labels, strings, temporal
from penstock.ingest.mysql.values.decimals import MAX_PRECISION

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.ingest.database.buffers import Bools, Bytes, Int64s
    from penstock.ingest.mysql.definition import MySqlType
    from penstock.ingest.mysql.values.rules import CellContext

_EASY_PRECISION = 18  # digits that fit in 64 bits
_ARROW_INTEGERS = {1: "int8", 2: "int16", 3: "int32", 4: "int32", 8: "int64"}


def column_of(data: Bytes, start: Int64s, length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    """Return the Arrow column of the text cells at these positions."""
    if null.any():
        start, length = np.where(null, 0, start), np.where(null, 0, length)
    kind = cells.column.type
    if kind.base in INTEGER_BYTES:
        name = ("u" if kind.unsigned else "") + _ARROW_INTEGERS[INTEGER_BYTES[kind.base]]
        return fixed(pa.type_for_alias(name), _whole_numbers(data, start, length).astype(name), null)
    if kind.base in BYTES:
        return slices(pa.binary(), data, start, length, null)
    if kind.base in GEOMETRIES:
        return strings.geometries(slices(pa.binary(), data, start, length, null), cells)
    build = _BUILDERS.get(kind.base, _texts)
    return build(data, start, length, null, cells)


def _texts(data: Bytes, start: Int64s, length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    return strings.decoded(slices(pa.binary(), data, start, length, null), CHARSETS["utf8mb4"], cells)


def _doubles(data: Bytes, start: Int64s, length: Int64s, null: Bools, _cells: CellContext) -> pa.Array:
    return slices(pa.string(), data, start, length, null).cast(pa.float64())


def _floats(data: Bytes, start: Int64s, length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    # Selected as doubles, because the text of a FLOAT has only six digits.
    return _doubles(data, start, length, null, cells).cast(pa.float32(), safe=False)


def _whole_numbers(data: Bytes, start: Int64s, length: Int64s) -> Int64s:
    """Return signed 64-bit numbers; a larger unsigned number wraps and is right again when viewed as unsigned."""
    negative, start, length = signs(data, start, length)
    values = magnitudes(data, start, length).view(np.int64)
    return np.where(negative, -values, values)


def _decimals(data: Bytes, start: Int64s, length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    precision, scale = cells.column.type.size or 10, cells.column.type.scale or 0
    if precision > _EASY_PRECISION:
        text = slices(pa.string(), data, start, length, null)
        return text if precision > MAX_PRECISION else text.cast(pa.decimal128(precision, scale))
    negative, start, length = signs(data, start, length)
    point = scale + 1 if scale else 0
    whole = np.maximum(length - point, 0)
    parts = [(precision - scale, magnitudes(data, start, whole).view(np.int64))]
    if scale:
        digits = np.minimum(length, scale)
        parts.append((scale, magnitudes(data, start + length - digits, digits).view(np.int64)))
    return fixed(pa.decimal128(precision, scale), as_128_bits(parts, negative), null)


def _years(data: Bytes, start: Int64s, length: Int64s, null: Bools, _cells: CellContext) -> pa.Array:
    return fixed(pa.int32(), _whole_numbers(data, start, length).astype(np.int32), null)


def _number(digits: Bytes, first: int, last: int) -> Int64s:
    number: Int64s = digits[:, first].astype(np.int64)
    for place in range(first + 1, last):
        number = number * 10 + digits[:, place]
    return number


def _digits(data: Bytes, start: Int64s, width: int) -> Bytes:
    return gathered(data, start, width) - np.uint8(ord("0"))


def _fraction(digits: Bytes, first: int, count: int) -> Int64s:
    if not count:
        return np.zeros(len(digits), np.int64)
    micros: Int64s = _number(digits, first, first + count) * 10 ** (6 - count)
    return micros


def _dates(data: Bytes, start: Int64s, _length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    digits = _digits(data, start, 10)
    parts = temporal.DateTimeParts.of_dates(_number(digits, 0, 4), _number(digits, 5, 7), _number(digits, 8, 10))
    return temporal.dates(parts, null, cells)


def _datetimes(data: Bytes, start: Int64s, _length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    count = cells.column.type.size or 0
    digits = _digits(data, start, 20 + count if count else 19)
    parts = temporal.DateTimeParts(
        _number(digits, 0, 4),
        _number(digits, 5, 7),
        _number(digits, 8, 10),
        _number(digits, 11, 13),
        _number(digits, 14, 16),
        _number(digits, 17, 19),
        _fraction(digits, 20, count),
    )
    return temporal.datetimes(parts, null, cells)


def _times(data: Bytes, start: Int64s, length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    """Parse `[-]HHH:MM:SS[.f]` from the end, because everything after the hours has a fixed width."""
    count = cells.column.type.size or 0
    tail = 6 + (count + 1 if count else 0)
    negative = (data[start] == ord("-")) & ~null
    hours_at = start + negative
    tail_at = np.where(null, 0, start + length - tail)
    hour_digits = tail_at - hours_at
    hours = np.zeros(len(start), np.int64)
    for place in range(3):
        inside = (hour_digits > place) & ~null
        digit = data[np.where(inside, hours_at + place, 0)].astype(np.int64) - ord("0")
        hours = np.where(inside, hours * 10 + digit, hours)
    digits = _digits(data, tail_at, tail)
    seconds = hours * 3600 + _number(digits, 1, 3) * 60 + _number(digits, 4, 6)
    micros = np.where(null, 0, seconds * 1_000_000 + _fraction(digits, 7, count))
    return temporal.times(micros, negative, null, cells)


def _sets(data: Bytes, start: Int64s, length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    return labels.split_members(_texts(data, start, length, null, cells))


def _bits(data: Bytes, start: Int64s, length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    return labels.bits(data, start, length, null, cells.column.type.size or 1)


def _vectors(data: Bytes, start: Int64s, length: Int64s, null: Bools, _cells: CellContext) -> pa.Array:
    return strings.vectors(slices(pa.binary(), data, start, length, null))


_BUILDERS: dict[str, Callable[[Bytes, Int64s, Int64s, Bools, CellContext], pa.Array]] = {
    "float": _floats,
    "double": _doubles,
    "decimal": _decimals,
    "year": _years,
    "date": _dates,
    "datetime": _datetimes,
    "timestamp": _datetimes,
    "time": _times,
    "set": _sets,
    "bit": _bits,
    "vector": _vectors,
}


def expression(name: str, kind: MySqlType) -> str:
    """Return the SQL expression that selects a column without losing precision in its text."""
    # Multiplied by one rather than added to zero, which would drop the sign of a negative zero.
    return f"{name} * 1e0" if kind.base in {"float", "double"} else name


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
    # Each factor has one number per half: 1,000,000 and 100, then 10,000 and 1. The upper half of a product is the
    # sum of both parts with their weights.
    first = (word & low) * np.uint64(0x000F424000000064)
    second = (word >> high & low) * np.uint64(0x0000271000000001)
    return (first + second) >> np.uint64(32)
