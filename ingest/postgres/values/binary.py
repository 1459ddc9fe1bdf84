"""Columns from cells in PostgreSQL's binary format, as in COPY and in a binary log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.ingest.database.buffers import (
    as_128_bits,
    at_every_byte,
    big_endian_at,
    booleans,
    fixed,
    texts,
)
from penstock.ingest.database.cells import Cells
from penstock.ingest.postgres.relation import TEXTS, PgType
from penstock.ingest.postgres.values.odd_values import (
    ARRAY_SHAPE,
    INFINITY,
    NOT_A_NUMBER,
    OUT_OF_DAY,
    TOO_LARGE,
    note_lengths,
    nulled,
)
from penstock.ingest.postgres.values.windows import WIDTHS

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bools, Int64s


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


_NEGATIVE, _SPECIAL = 0x4000, 0xC000
_HEADER = 8


def numerics(cells: Cells, kind: PgType, oddities: Counter[str]) -> pa.Array:
    """Return decimals; NaN, infinities, and numbers that do not fit become null and are counted."""
    precision, scale = kind.decimal or (0, 0)
    # A NUMERIC has a header (number of groups, weight, sign, scale) and groups of four decimal digits. The first
    # group counts 10000^weight, and zero groups at either end are left out.
    count, weight, sign = (cells.read(layout, at).astype(np.int64) for layout, at in _HEAD)
    if (~cells.null & (cells.length != _HEADER + 2 * count)).any():
        raise ValueError("a number has more or fewer groups of digits than it counts")
    null = nulled(cells.null, (sign & _SPECIAL) == _SPECIAL, NOT_A_NUMBER, oddities)
    count = np.where(null, 0, count)
    whole, part = -(-(precision - scale) // 4), -(-scale // 4)
    groups, spare = [], np.zeros(len(cells), np.bool_)
    # From the highest place of the target type to the lowest: each step reads one group of every cell.
    for place, found in zip(range(whole - 1, -part - 1, -1), _digits(cells, count, weight, whole, part), strict=True):
        size, group = 4, found
        # The lowest group has only the digits that the scale has room for.
        if place == -part and scale % 4:
            size = scale % 4
            group, rest = np.divmod(group, 10 ** (4 - size))
            spare |= rest > 0
        groups.append((size, group))
    top = (precision - scale) % 4
    # Digits before the first place and after the last one; both exist only in a NUMERIC without a declared size.
    spare |= (count > 0) & ((weight >= whole) | (weight - count + 1 < -part))
    if top and whole:
        spare |= groups[0][1] >= 10**top
    null = nulled(null, spare, TOO_LARGE, oddities)
    return fixed(pa.decimal128(precision, scale), as_128_bits(groups, sign == _NEGATIVE), null)


_HEAD = ((">i2", 0), (">i2", 2), (">u2", 4))


def _digits(cells: Cells, count: Int64s, weight: Int64s, whole: int, part: int) -> Iterator[Int64s]:
    """Yield the group of every cell at each of these places, the highest first; ValueError if it has other digits."""
    size = whole + part
    stored = cells.first_bytes(_HEADER + 2 * size)[:, _HEADER:].view(">u2")
    # Zeros before the groups stand for the places above the first one, which begins further down in smaller numbers.
    padded = np.zeros((len(cells), 2 * size), np.int64)
    np.multiply(stored, np.arange(size) < count[:, None], out=padded[:, size:])
    if (padded > 9999).any():
        raise ValueError("a group of a number has more than four digits")
    first = np.arange(size, padded.size + size, 2 * size) - np.clip(whole - 1 - weight, 0, size)
    for step in range(size):
        yield padded.reshape(-1)[first + step]


_DAY_US = 86_400_000_000
_EPOCH_DAYS = 10_957  # from 1970-01-01 to 2000-01-01
_EPOCH_US = _EPOCH_DAYS * _DAY_US
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
        return fixed(arrow, cells.read(layout).astype(arrow.to_pandas_dtype()), cells.null)
    if kind.name in TEXTS:
        return cells.valid_texts()
    return _BUILDERS[kind.name](cells, kind, oddities)


def _check_lengths(cells: Cells, kind: PgType) -> None:
    """Raise ValueError unless the cells are as long as the type needs."""
    exact, least = WIDTHS.get(kind.name), _LEAST.get(kind.name)
    if exact is not None:
        wrong = cells.length != exact
    elif least is not None:
        wrong = cells.length < least
    else:
        return
    wrong &= ~cells.null
    if wrong.any():
        raise ValueError(f"{int(cells.length[wrong][0])} bytes are no {kind}")


def _bools(cells: Cells, _kind: PgType, _oddities: Counter[str]) -> pa.Array:
    return booleans(cells.read("u1") == 1, cells.null)


def _bytes(cells: Cells, _kind: PgType, _oddities: Counter[str]) -> pa.Array:
    return cells.values(pa.binary())


def _jsonb(cells: Cells, _kind: PgType, _oddities: Counter[str]) -> pa.Array:
    return cells.after(1).valid_texts()  # after the version


def _dates(cells: Cells, _kind: PgType, oddities: Counter[str]) -> pa.Array:
    days = cells.read(">i4").astype(np.int64)
    limits = np.iinfo(np.int32)
    # The greatest and the smallest number are infinity and -infinity.
    null = nulled(cells.null, (days == limits.max) | (days == limits.min), INFINITY, oddities)
    return fixed(pa.date32(), np.where(null, 0, days + _EPOCH_DAYS).astype(np.int32), null)


def _times(cells: Cells, _kind: PgType, oddities: Counter[str]) -> pa.Array:
    micros = cells.read(">i8").astype(np.int64)
    # The server allows 24:00:00.
    null = nulled(cells.null, (micros >= _DAY_US) | (micros < 0), OUT_OF_DAY, oddities)
    return fixed(pa.time64("us"), np.where(null, 0, micros), null)


def _timestamps(cells: Cells, kind: PgType, oddities: Counter[str]) -> pa.Array:
    micros = cells.read(">i8").astype(np.int64)
    limits = np.iinfo(np.int64)
    # The last years that the server knows are beyond what 64 bits since 1970 can represent.
    odd = (micros == limits.min) | (micros > limits.max - _EPOCH_US)
    null = nulled(cells.null, odd, INFINITY, oddities)
    arrow = pa.timestamp("us", "UTC" if kind.name == "timestamptz" else None)
    return fixed(arrow, np.where(null, 0, micros) + np.where(null, 0, _EPOCH_US), null)


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
