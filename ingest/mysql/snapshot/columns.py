"""Conversion of text cells to Arrow, a whole column at a time; the values are the same as from binlog cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import has_any
from penstock.ingest.database.buffers import as_128_bits, fixed
from penstock.ingest.database.cells import Cells
from penstock.ingest.mysql.definition import BYTES, GEOMETRIES, INTEGER_BYTES
from penstock.ingest.mysql.server.charsets import CHARSETS
from penstock.ingest.mysql.snapshot.digits import magnitudes, signs, word
from penstock.ingest.mysql.values import labels, strings, temporal
from penstock.ingest.mysql.values.decimals import MAX_PRECISION

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.byte_buffers import Int64s
    from penstock.ingest.mysql.definition import MySqlType
    from penstock.ingest.mysql.snapshot.digits import UInt64s
    from penstock.ingest.mysql.values.rules import CellContext

_EASY_PRECISION = 18  # digits that fit in 64 bits
_ARROW_INTEGERS = {1: "int8", 2: "int16", 3: "int32", 4: "int32", 8: "int64"}


def column_of(texts: Cells, cells: CellContext) -> pa.Array:
    """Return the Arrow column of the text cells."""
    texts = texts.safe()
    kind = cells.column.type
    if kind.base in INTEGER_BYTES:
        name = ("u" if kind.unsigned else "") + _ARROW_INTEGERS[INTEGER_BYTES[kind.base]]
        return fixed(pa.type_for_alias(name), _whole_numbers(texts).astype(name), texts.null)
    if kind.base in BYTES:
        return texts.values(pa.binary())
    if kind.base in GEOMETRIES:
        return strings.geometries(texts.values(pa.binary()), cells)
    return _BUILDERS.get(kind.base, _texts)(texts, cells)


def _texts(texts: Cells, cells: CellContext) -> pa.Array:
    return strings.decoded(texts.values(pa.binary()), CHARSETS["utf8mb4"], cells)


def _doubles(texts: Cells, _cells: CellContext) -> pa.Array:
    return texts.values(pa.string()).cast(pa.float64())


def _floats(texts: Cells, cells: CellContext) -> pa.Array:
    # Selected as doubles, because the text of a FLOAT has only six digits.
    return _doubles(texts, cells).cast(pa.float32(), safe=False)


def _whole_numbers(texts: Cells) -> Int64s:
    """Return signed 64-bit numbers; a larger unsigned number wraps and is right again when viewed as unsigned."""
    negative, digits = signs(texts)
    values = magnitudes(digits).view(np.int64)
    return np.where(negative, -values, values) if has_any(negative) else values


def _decimals(texts: Cells, cells: CellContext) -> pa.Array:
    precision, scale = cells.column.type.size or 10, cells.column.type.scale or 0
    if precision > _EASY_PRECISION:
        text = texts.values(pa.string())
        return text if precision > MAX_PRECISION else text.cast(pa.decimal128(precision, scale))
    negative, plain = signs(texts)
    point = scale + 1 if scale else 0
    parts = [(precision - scale, magnitudes(plain.after(0, np.maximum(plain.length - point, 0))).view(np.int64))]
    if scale:
        digits = np.minimum(plain.length, scale)
        fraction = Cells(plain.data, plain.start + plain.length - digits, digits, plain.null)
        parts.append((scale, magnitudes(fraction).view(np.int64)))
    return fixed(pa.decimal128(precision, scale), as_128_bits(parts, negative), texts.null)


def _years(texts: Cells, _cells: CellContext) -> pa.Array:
    return fixed(pa.int32(), _whole_numbers(texts).astype(np.int32), texts.null)


def _dates(texts: Cells, cells: CellContext) -> pa.Array:
    # The words of `YYYY-MM-DD` from its first character on, and up to its last.
    begin, end = _pairs(word(texts, 0), "dddd-dd-"), _pairs(word(texts, 2), "dd-dd-dd")
    parts = temporal.DateTimeParts.of_dates(_year(begin), _pair(end, 3), _pair(end, 6))
    return temporal.dates(parts, texts.null, cells)


def _datetimes(texts: Cells, cells: CellContext) -> pa.Array:
    # The three words of `YYYY-MM-DD HH:MM:SS[.f]`; the last one may extend beyond the text.
    date, clock = _pairs(word(texts, 0), "dddd-dd-"), _pairs(word(texts, 8), "dd dd:dd")
    second = _pairs(word(texts, 16), ":dd     ")
    parts = temporal.DateTimeParts(
        _year(date),
        _pair(date, 5),
        _pair(clock, 0),
        _pair(clock, 3),
        _pair(clock, 6),
        _pair(second, 1),
        _fraction(texts, 20, cells.column.type.size or 0),
    )
    return temporal.datetimes(parts, texts.null, cells)


def _pairs(eight: UInt64s, form: str) -> UInt64s:
    """Return words whose bytes are the numbers of two digits that begin there.

    `form` has a `d` for each byte that is a digit.
    """
    # The first character is in the lowest byte.
    mask = int.from_bytes(bytes(0x0F if letter == "d" else 0 for letter in form), "little")
    digits = eight & np.uint64(mask)
    return digits * np.uint64(10) + (digits >> np.uint64(8))


def _pair(pairs: UInt64s, place: int) -> Int64s:
    number: Int64s = (pairs >> np.uint64(8 * place) & np.uint64(0xFF)).view(np.int64)
    return number


def _year(pairs: UInt64s) -> Int64s:
    return _pair(pairs, 0) * 100 + _pair(pairs, 2)


def _fraction(texts: Cells, first: int, count: int) -> Int64s:
    """Return the microseconds of a fraction of `count` digits that begins at this byte of each cell."""
    if not count:
        return np.zeros(len(texts.start), np.int64)
    digits = texts.after(first, np.full(len(texts.start), count, np.int64))
    micros: Int64s = magnitudes(digits).view(np.int64) * 10 ** (6 - count)
    return micros


def _times(texts: Cells, cells: CellContext) -> pa.Array:
    """Parse `[-]HHH:MM:SS[.f]` from the end, because everything after the hours has a fixed width."""
    data, start, null = texts.data, texts.start, texts.null
    count = cells.column.type.size or 0
    tail = 6 + (count + 1 if count else 0)
    negative = (data[start] == ord("-")) & ~null
    hours_at = start + negative
    tail_at = np.where(null, 0, start + texts.length - tail)
    hour_digits = tail_at - hours_at
    hours = np.zeros(len(start), np.int64)
    for place in range(3):
        inside = (hour_digits > place) & ~null
        digit = data[np.where(inside, hours_at + place, 0)].astype(np.int64) - ord("0")
        hours = np.where(inside, hours * 10 + digit, hours)
    # The word `:MM:SS.f`, which may extend beyond the text.
    ends = Cells(data, tail_at, texts.length, null)
    clock = _pairs(word(ends, 0), ":dd:dd  ")
    seconds = hours * 3600 + _pair(clock, 1) * 60 + _pair(clock, 4)
    micros = np.where(null, 0, seconds * 1_000_000 + _fraction(ends, 7, count))
    return temporal.times(micros, negative, null, cells)


def _sets(texts: Cells, cells: CellContext) -> pa.Array:
    return labels.split_members(_texts(texts, cells))


def _bits(texts: Cells, cells: CellContext) -> pa.Array:
    return labels.bits(texts.data, texts.start, texts.length, texts.null, cells.column.type.size or 1)


def _vectors(texts: Cells, _cells: CellContext) -> pa.Array:
    return strings.vectors(texts.values(pa.binary()))


_BUILDERS: dict[str, Callable[[Cells, CellContext], pa.Array]] = {
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
