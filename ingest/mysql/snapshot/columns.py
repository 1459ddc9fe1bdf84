"""Conversion of text cells to Arrow, a whole column at a time; the values are the same as from binlog cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.ingest.database.buffers import as_128_bits, at_every_byte, fixed, slices
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
    return np.where(negative, -values, values) if negative.any() else values


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


def _dates(data: Bytes, start: Int64s, _length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    words = at_every_byte(data, "<u8")
    # The words of `YYYY-MM-DD` from its first character on, and up to its last.
    begin, end = _pairs(words[start], "dddd-dd-"), _pairs(words[start + 2], "dd-dd-dd")
    return temporal.dates(temporal.DateTimeParts.of_dates(_year(begin), _pair(end, 3), _pair(end, 6)), null, cells)


def _datetimes(data: Bytes, start: Int64s, _length: Int64s, null: Bools, cells: CellContext) -> pa.Array:
    words = at_every_byte(data, "<u8")
    # The three words of `YYYY-MM-DD HH:MM:SS[.f]`; the last one may extend beyond the text.
    date, clock = _pairs(words[start], "dddd-dd-"), _pairs(words[start + 8], "dd dd:dd")
    second = _pairs(words[start + 16], ":dd     ")
    parts = temporal.DateTimeParts(
        _year(date),
        _pair(date, 5),
        _pair(clock, 0),
        _pair(clock, 3),
        _pair(clock, 6),
        _pair(second, 1),
        _fraction(data, start + 20, cells.column.type.size or 0),
    )
    return temporal.datetimes(parts, null, cells)


def _pairs(word: UInt64s, form: str) -> UInt64s:
    """Return words whose bytes are the numbers of two digits that begin there.

    `form` has a `d` for each byte that is a digit.
    """
    # The first character is in the lowest byte.
    mask = int.from_bytes(bytes(0x0F if one == "d" else 0 for one in form), "little")
    digits = word & np.uint64(mask)
    return digits * np.uint64(10) + (digits >> np.uint64(8))


def _pair(pairs: UInt64s, place: int) -> Int64s:
    number: Int64s = (pairs >> np.uint64(8 * place) & np.uint64(0xFF)).view(np.int64)
    return number


def _year(pairs: UInt64s) -> Int64s:
    return _pair(pairs, 0) * 100 + _pair(pairs, 2)


def _fraction(data: Bytes, start: Int64s, count: int) -> Int64s:
    """Return the microseconds of a fraction of `count` digits."""
    if not count:
        return np.zeros(len(start), np.int64)
    number = magnitudes(data, start, np.full(len(start), count, np.int64)).view(np.int64)
    micros: Int64s = number * 10 ** (6 - count)
    return micros


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
    # The word `:MM:SS.f`, which may extend beyond the text.
    clock = _pairs(at_every_byte(data, "<u8")[tail_at], ":dd:dd  ")
    seconds = hours * 3600 + _pair(clock, 1) * 60 + _pair(clock, 4)
    micros = np.where(null, 0, seconds * 1_000_000 + _fraction(data, tail_at + 7, count))
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
    return (negative, start + negative, length - negative) if negative.any() else (negative, start, length)


def magnitudes(data: Bytes, start: Int64s, length: Int64s) -> UInt64s:
    """Return the values of texts that consist of up to 20 digits; an empty text is zero."""
    words = at_every_byte(data, "<u8")
    longest = int(length.max()) if len(length) else 0
    if longest <= _EIGHT:
        return _eight(words[start], length)
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
