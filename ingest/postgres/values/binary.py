"""Columns from cells in PostgreSQL's binary format, as in COPY and in a binary log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import at_every_byte, has_any
from penstock.ingest.database.buffers import big_endian_at, booleans, fixed, is_repeated, texts
from penstock.ingest.database.cells import Cells
from penstock.ingest.postgres.relation import TEXTS, PgType
from penstock.ingest.postgres.values.numerics import numerics
from penstock.ingest.postgres.values.odd_values import (
    ARRAY_SHAPE,
    INFINITY,
    OUT_OF_DAY,
    note_lengths,
    nulled,
)
from penstock.ingest.postgres.values.windows import WIDTHS

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools


def bit_fields(cells: Cells, kind: PgType, oddities: Counter[str]) -> pa.Array:
    """Return booleans for one bit, else bytes. Each distinct value is shifted once."""
    note_lengths(kind, cells.read(">i4")[~cells.null].astype(np.int64), oddities)
    if kind.size == 1:
        # A bit string has its number of bits in four bytes, and its content begins with the highest bit.
        return booleans((cells.read("u1", 4) >= 0x80) & (cells.read(">i4") > 0), cells.null)
    encoded = cells.values(pa.binary()).dictionary_encode()
    values = [_aligned(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(values, pa.binary()).take(encoded.indices)


def _aligned(value: bytes) -> bytes:
    bits = int.from_bytes(value[:4], "big")
    content = value[4:]
    number = int.from_bytes(content, "big") >> (8 * len(content) - bits)
    return number.to_bytes((bits + 7) // 8, "big")


def bits_of_text(digits: str) -> bytes:
    """Return the bytes of binary digits as the server prints them."""
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")


_DAY_US = 86_400_000_000
_EPOCH_DAYS = 10_957  # from 1970-01-01 to 2000-01-01
_EPOCH_US = _EPOCH_DAYS * _DAY_US
_LEAST_US, _LEAST_DAY = -(2**63) + _EPOCH_US, -(2**31) + 1
_TIMESTAMPS = {"timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC")}
_NUMBERS = {"int2": (">i2", pa.int16()), "int4": (">i4", pa.int32()), "int8": (">i8", pa.int64())}
_FLOATS = {"float4": (">f4", pa.float32()), "float8": (">f8", pa.float64())}
_FIXED = _NUMBERS | _FLOATS
# The fewest bytes of values with different lengths.
_LEAST = {"numeric": 8, "bit": 4, "varbit": 4, "jsonb": 1}
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID = [place for place in range(36) if place not in {8, 13, 18, 23}]
_ARRAY_HEADER, _DIMENSION = 12, 8


def binary_column(cells: Cells, kind: PgType, oddities: Counter[str]) -> pa.Array:
    """Return the column; values that Arrow or Paimon cannot represent become null and are counted."""
    cells = cells.safe()
    if kind.element is not None:
        return _arrays(cells, kind.element, oddities)
    _check_lengths(cells, kind)
    if kind.name in _FIXED:
        layout, arrow = _FIXED[kind.name]
        return fixed(arrow, cells.read(layout).astype(layout[1:]), cells.null)
    if kind.name in TEXTS:
        return cells.valid_texts()
    return _BUILDERS[kind.name](cells, kind, oddities)


def _check_lengths(cells: Cells, kind: PgType) -> None:
    """Raise ValueError unless the cells are as long as the type needs."""
    exact, least = WIDTHS.get(kind.name), _LEAST.get(kind.name)
    length = cells.length[:1] if is_repeated(cells.length) else cells.length
    if exact is not None:
        wrong = length != exact
    elif least is not None:
        wrong = length < least
    else:
        return
    if not has_any(wrong):
        return
    wrong = wrong & ~cells.null
    if has_any(wrong):
        raise ValueError(f"{int(cells.length[wrong][0])} bytes are no {kind}")


def _bools(cells: Cells, _kind: PgType, _oddities: Counter[str]) -> pa.Array:
    return booleans(cells.read("u1") == 1, cells.null)


def _bytes(cells: Cells, _kind: PgType, _oddities: Counter[str]) -> pa.Array:
    return cells.values(pa.binary())


def _jsonb(cells: Cells, _kind: PgType, _oddities: Counter[str]) -> pa.Array:
    return cells.after(1).valid_texts()  # after the version


def _dates(cells: Cells, _kind: PgType, oddities: Counter[str]) -> pa.Array:
    days = cells.read(">i4").astype(np.int32)
    # The greatest and the smallest number are infinity and -infinity. One more wraps the greatest to the smallest.
    null = nulled(cells.null, (days + np.int32(1)) <= _LEAST_DAY, INFINITY, oddities)
    days += np.int32(_EPOCH_DAYS)
    return fixed(pa.date32(), np.where(null, 0, days) if has_any(null) else days, null)


def _times(cells: Cells, _kind: PgType, oddities: Counter[str]) -> pa.Array:
    micros = cells.read(">i8").astype(np.int64)
    # The server allows 24:00:00.
    null = nulled(cells.null, (micros >= _DAY_US) | (micros < 0), OUT_OF_DAY, oddities)
    return fixed(pa.time64("us"), np.where(null, 0, micros), null)


def _timestamps(cells: Cells, kind: PgType, oddities: Counter[str]) -> pa.Array:
    micros = cells.read(">i8").astype(np.int64)
    # The last years that the server knows, and infinity, are beyond what 64 bits since 1970 can represent. Their sums
    # wrap to numbers below that of -infinity, which is the smallest of the others.
    micros += _EPOCH_US
    odd = micros <= _LEAST_US
    null = nulled(cells.null, odd, INFINITY, oddities)
    return fixed(_TIMESTAMPS[kind.name], np.where(null, 0, micros) if has_any(null) else micros, null)


def _uuids(cells: Cells, _kind: PgType, _oddities: Counter[str]) -> pa.Array:
    raw = cells.first_bytes(16)
    matrix = np.full((len(cells), 36), ord("-"), np.uint8)
    nibbles = np.stack([raw >> 4, raw & 15], axis=2).reshape(len(cells), 32)
    matrix[:, _UUID] = _HEX[nibbles]
    return texts(matrix, np.ones(matrix.shape, np.bool_), cells.null)


def _arrays(cells: Cells, element: PgType, oddities: Counter[str]) -> pa.Array:
    """Return lists. Each array is a lane, and one step finds one element of every lane."""
    end = cells.start + cells.length
    _check_array(~cells.null & (cells.length < _ARRAY_HEADER))
    dimensions = np.where(cells.null, 0, cells.read(">i4")).astype(np.int64)
    _check_array((dimensions < 0) | ((dimensions == 1) & (cells.length < _ARRAY_HEADER + _DIMENSION)))
    null = nulled(cells.null, dimensions > 1, ARRAY_SHAPE, oddities)
    count = np.zeros(len(cells), np.int64)
    filled = np.flatnonzero(~null & (dimensions == 1))
    count[filled] = at_every_byte(cells.data, ">i4")[cells.start[filled] + _ARRAY_HEADER]
    # Each element has at least its size, so a wrong count cannot make the lists larger than the cells.
    _check_array((count < 0) | ((count > 0) & (4 * count > cells.length - _ARRAY_HEADER - _DIMENSION)))
    offsets = np.zeros(len(cells) + 1, np.int64)
    np.cumsum(count, out=offsets[1:])
    start, length = np.zeros(offsets[-1], np.int64), np.zeros(offsets[-1], np.int64)
    at = cells.start + _ARRAY_HEADER + _DIMENSION
    for step in range(int(count.max(initial=0))):
        lane = np.flatnonzero(count > step)
        _check_array(at[lane] + 4 > end[lane])
        # A size of -1 is a null element.
        size = big_endian_at(cells.data, at[lane], 4).astype(np.uint32).view(np.int32).astype(np.int64)
        place = offsets[lane] + step
        start[place], length[place] = at[lane] + 4, size
        at[lane] += 4 + np.maximum(size, 0)
        _check_array(at[lane] > end[lane])
    values = binary_column(Cells(cells.data, start, np.maximum(length, 0), length < 0), element, oddities)
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    if not null.any():
        return lists
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=pa.array(null))


def _check_array(wrong: Bools) -> None:
    if wrong.any():
        raise ValueError("an array ends before its last element")


_BUILDERS: dict[str, Callable[[Cells, PgType, Counter[str]], pa.Array]] = {
    "bool": _bools,
    "bytea": _bytes,
    "jsonb": _jsonb,
    "date": _dates,
    "time": _times,
    "timestamp": _timestamps,
    "timestamptz": _timestamps,
    "uuid": _uuids,
    "numeric": numerics,
    "bit": bit_fields,
    "varbit": bit_fields,
}
