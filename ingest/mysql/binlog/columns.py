"""Conversion of binlog cells to Arrow, a whole column at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import at_every_byte, has_any, slices
from penstock.ingest.database.buffers import EvenPlaces, big_endian_at, fixed, padded, read_at, unsigned_at
from penstock.ingest.mysql.binlog import table_map as kinds
from penstock.ingest.mysql.definition import BYTES, INTEGER_BYTES, NETWORK_BYTES
from penstock.ingest.mysql.values import labels, strings, temporal
from penstock.ingest.mysql.values.decimals import decimals
from penstock.ingest.mysql.values.labels import addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.database.buffers import Places
    from penstock.ingest.mysql.binlog.table_layout import BinlogColumn
    from penstock.ingest.mysql.values.rules import CellContext

_ARROW_INTEGERS = {1: "int8", 2: "int16", 3: "int32", 4: "int32", 8: "int64"}
# Microseconds per unit, by the bytes of the fraction: it is stored as hundredths, ten-thousandths or millionths of
# a second.
_FRACTION_UNITS = {0: 0, 1: 10_000, 2: 100, 3: 1}


def column_of(
    data: Bytes, shaped: BinlogColumn, start: Places, length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    """Return the Arrow column of the cells at these positions; the position of a null is ignored."""
    if number := _NUMBERS.get(shaped.kind):
        if has_any(null) and not isinstance(start, EvenPlaces):
            start = np.where(null, 0, start)
        return number(data, shaped, start, length, null, cells)
    if isinstance(start, EvenPlaces):
        start = start.positions
    if has_any(null):
        # A null cell has no bytes. The position computed for it may be at the end of the buffer, where a number
        # cannot be read.
        start, length = np.where(null, 0, start), np.where(null, 0, length)
    return _BUILDERS.get(shaped.kind, _strings)(data, shaped, start, length, null, cells)


def _integers(
    data: Bytes, shaped: BinlogColumn, start: Places, _length: Int64s, null: Bools, _cells: CellContext
) -> pa.Array:
    width, unsigned = INTEGER_BYTES[shaped.column.type.base], shaped.column.type.unsigned
    name = ("u" if unsigned else "") + _ARROW_INTEGERS[width]
    if width == 3:
        values = unsigned_at(data, start, 3)
        if not unsigned:
            # Extends the sign: numpy has no type of three bytes.
            values -= (values >> 23) << 24
        return fixed(pa.type_for_alias(name), values.astype(name), null)
    read = read_at(data, f"<{'u' if unsigned else 'i'}{width}", start)
    return fixed(pa.type_for_alias(name), read.copy(), null)


def _floats(
    data: Bytes, shaped: BinlogColumn, start: Places, _length: Int64s, null: Bools, _cells: CellContext
) -> pa.Array:
    if shaped.kind == kinds.FLOAT:
        return fixed(pa.float32(), read_at(data, "<f4", start).copy(), null)
    return fixed(pa.float64(), read_at(data, "<f8", start).copy(), null)


def _decimals(
    data: Bytes, shaped: BinlogColumn, start: Places, _length: Int64s, null: Bools, _cells: CellContext
) -> pa.Array:
    return decimals(data, start, null, shaped.size, shaped.scale)


def _years(
    data: Bytes, _shaped: BinlogColumn, start: Places, _length: Int64s, null: Bools, _cells: CellContext
) -> pa.Array:
    stored = read_at(data, "u1", start).astype(np.int32)
    # YEAR is stored as the distance to 1900, except for the year 0000.
    return fixed(pa.int32(), np.where(stored == 0, np.int32(0), stored + np.int32(1900)), null)


def _dates(
    data: Bytes, _shaped: BinlogColumn, start: Places, _length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    packed = unsigned_at(data, start, 3)
    # DATE has 5 bits of day, 4 of month and the rest of year.
    return temporal.dates(temporal.DateTimeParts.of_dates(packed >> 9, packed >> 5 & 15, packed & 31), null, cells)


def _fraction(data: Bytes, at: Places, digits: int) -> Int64s:
    width = (digits + 1) // 2
    if not width:
        return np.zeros(len(at), np.int64)
    return big_endian_at(data, at, width).astype(np.int64) * _FRACTION_UNITS[width]


def _datetimes(
    data: Bytes, shaped: BinlogColumn, start: Places, _length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    # The offset makes the stored bytes sort like the values. Below it: 17 bits for year * 13 + month, 5 for the
    # day, 5 for the hour, 6 each for minute and second.
    packed = big_endian_at(data, start, 5).astype(np.int64) - 0x8000000000
    date, time = packed >> 17, packed & 0x1FFFF
    year_month = date >> 5
    parts = temporal.DateTimeParts(
        year_month // 13,
        year_month % 13,
        date & 31,
        time >> 12,
        time >> 6 & 63,
        time & 63,
        _fraction(data, start + 5, shaped.size),
    )
    return temporal.datetimes(parts, null, cells)


def _timestamps(
    data: Bytes, shaped: BinlogColumn, start: Places, _length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    if shaped.kind == kinds.TIMESTAMP:
        # The type before MySQL 5.6.4 is little-endian and has no fraction.
        seconds, micro = unsigned_at(data, start, 4), np.zeros(len(start), np.int64)
    else:
        seconds, micro = big_endian_at(data, start, 4).astype(np.int64), _fraction(data, start + 4, shaped.size)
    return temporal.instants(seconds, micro, null, cells)


def _times(
    data: Bytes, shaped: BinlogColumn, start: Places, _length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    width = (shaped.size + 1) // 2
    # The sign is an offset, as in `_datetimes`, of a number that includes the bytes of the fraction.
    packed = big_endian_at(data, start, 3 + width).astype(np.int64) - (0x800000 << 8 * width)
    # A negative TIME is a two's complement over time and fraction together: take the absolute value, then split.
    absolute = np.abs(packed)
    time, fraction = absolute >> 8 * width, absolute & ((1 << 8 * width) - 1)
    seconds = (time >> 12 & 0x3FF) * 3600 + (time >> 6 & 63) * 60 + (time & 63)
    micros = seconds * 1_000_000 + fraction * _FRACTION_UNITS[width]
    return temporal.times(micros, packed < 0, null, cells)


def _old_times(
    data: Bytes, _shaped: BinlogColumn, start: Int64s, _length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    """Decode TIME as stored before MySQL 5.6.4: HHMMSS as a signed number of three bytes."""
    packed = unsigned_at(data, start, 3)
    packed = packed - ((packed >> 23) << 24)
    digits = np.abs(packed)
    seconds = digits // 10_000 * 3600 + digits // 100 % 100 * 60 + digits % 100
    return temporal.times(seconds * 1_000_000, packed < 0, null, cells)


def _old_datetimes(
    data: Bytes, _shaped: BinlogColumn, start: Int64s, _length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    """Decode DATETIME as stored before MySQL 5.6.4: YYYYMMDDHHMMSS as a number."""
    digits = at_every_byte(data, "<i8")[start]
    date, time = digits // 1_000_000, digits % 1_000_000
    zero = np.zeros(len(start), np.int64)
    parts = temporal.DateTimeParts(
        date // 10_000, date // 100 % 100, date % 100, time // 10_000, time // 100 % 100, time % 100, zero
    )
    return temporal.datetimes(parts, null, cells)


def _enums(
    data: Bytes, shaped: BinlogColumn, start: Places, _length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    return labels.enum_labels(unsigned_at(data, start, shaped.size), null, cells)


def _sets(
    data: Bytes, shaped: BinlogColumn, start: Int64s, _length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    if shaped.size == 8:
        # A SET of 64 members uses the top bit, which a signed number has no room for.
        return labels.set_members(at_every_byte(data, "<u8")[start], null, cells)
    return labels.set_members(unsigned_at(data, start, shaped.size).astype(np.uint64), null, cells)


def _bits(
    data: Bytes, shaped: BinlogColumn, start: Int64s, _length: Int64s, null: Bools, _cells: CellContext
) -> pa.Array:
    width = np.full(len(start), (shaped.size + 7) // 8, np.int64)
    return labels.bits(data, start, width, null, shaped.size)


def _jsons(
    data: Bytes, _shaped: BinlogColumn, start: Int64s, length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    return strings.jsons(slices(pa.binary(), data, start, length, null), cells)


def _geometries(
    data: Bytes, _shaped: BinlogColumn, start: Int64s, length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    return strings.geometries(slices(pa.binary(), data, start, length, null), cells)


def _vectors(
    data: Bytes, _shaped: BinlogColumn, start: Int64s, length: Int64s, null: Bools, _cells: CellContext
) -> pa.Array:
    return strings.vectors(slices(pa.binary(), data, start, length, null))


def _strings(
    data: Bytes, shaped: BinlogColumn, start: Int64s, length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    base = shaped.column.type.base
    if base in NETWORK_BYTES:
        return addresses(padded(data, start, length, NETWORK_BYTES[base]), null, base)
    if base == "vector":
        return strings.vectors(slices(pa.binary(), data, start, length, null))
    if base == "binary":
        # The binlog omits the trailing zeros of BINARY.
        return labels.same_width(padded(data, start, length, shaped.size), null)
    if base in BYTES or shaped.charset is None:
        return slices(pa.binary(), data, start, length, null)
    return strings.decoded(slices(pa.binary(), data, start, length, null), shaped.charset, cells)


def _compressed(
    data: Bytes, shaped: BinlogColumn, start: Int64s, length: Int64s, null: Bools, cells: CellContext
) -> pa.Array:
    plain = strings.uncompressed(slices(pa.binary(), data, start, length, null), cells)
    if shaped.column.type.base in BYTES or shaped.charset is None:
        return plain
    return strings.decoded(plain, shaped.charset, cells)


# Kinds of a fixed width, whose cells may be at even places.
_NUMBERS: dict[int, Callable[[Bytes, BinlogColumn, Places, Int64s, Bools, CellContext], pa.Array]] = {
    **dict.fromkeys((kinds.TINY, kinds.SHORT, kinds.INT24, kinds.LONG, kinds.LONGLONG), _integers),
    **dict.fromkeys((kinds.FLOAT, kinds.DOUBLE), _floats),
    **dict.fromkeys((kinds.TIMESTAMP, kinds.TIMESTAMP2), _timestamps),
    **dict.fromkeys((kinds.DATE, kinds.NEWDATE), _dates),
    kinds.NEWDECIMAL: _decimals,
    kinds.YEAR: _years,
    kinds.TIME2: _times,
    kinds.DATETIME2: _datetimes,
    kinds.ENUM: _enums,
}
_BUILDERS: dict[int, Callable[[Bytes, BinlogColumn, Int64s, Int64s, Bools, CellContext], pa.Array]] = {
    kinds.TIME: _old_times,
    kinds.DATETIME: _old_datetimes,
    kinds.SET: _sets,
    kinds.BIT: _bits,
    kinds.JSON: _jsons,
    kinds.GEOMETRY: _geometries,
    kinds.VECTOR: _vectors,
    **dict.fromkeys((kinds.BLOB_COMPRESSED, kinds.VARCHAR_COMPRESSED), _compressed),
}
