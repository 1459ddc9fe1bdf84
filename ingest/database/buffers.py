"""Buffers of bytes from a source: numbers of any width, texts and decimals at many positions, read at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.byte_buffers import Bools, Bytes, Int64s, at_every_byte, has_any, of_offsets, ranges, validity

UInt64s = npt.NDArray[np.uint64]

# Every buffer ends with this many spare bytes, so that a read of that length from the last cell stays inside.
SPARE = 128


def repeated(value: bool | int, count: int) -> npt.NDArray[Any]:
    """Return an array that has the same value everywhere, which it stores once. Read-only."""
    single = np.asarray(value)
    return np.ndarray(count, single.dtype, single.tobytes(), strides=(0,))


def is_repeated(values: npt.NDArray[Any]) -> bool:
    """Return whether all values are known to be the first one."""
    return values.strides == (0,)


@dataclass(frozen=True, slots=True)
class EvenPlaces:
    """Positions of equal distance, at which numbers are read without a look-up of each."""

    first: int
    step: int
    count: int

    def __len__(self) -> int:
        return self.count

    def __add__(self, distance: int) -> EvenPlaces:
        return EvenPlaces(self.first + distance, self.step, self.count)

    @property
    def positions(self) -> Int64s:
        return self.first + self.step * np.arange(self.count)


Places = Int64s | EvenPlaces


def read_at(data: Bytes, dtype: str, places: Places) -> npt.NDArray[Any]:
    """Return the numbers at these positions, of even ones as a view."""
    numbers = at_every_byte(data, dtype)
    if isinstance(places, EvenPlaces):
        return numbers[places.first : places.first + places.step * places.count : places.step]
    return numbers[places]


def unsigned_at(data: Bytes, positions: Places, width: int) -> Int64s:
    """Return the little-endian numbers of 1 to 7 bytes at these positions."""
    if width in {1, 2, 4}:
        return read_at(data, f"<u{width}", positions).astype(np.int64)
    # numpy has no integers of 3, 5, 6 or 7 bytes. The next larger one also reads bytes of the following cell, which
    # the mask removes. For the last cell of a buffer these are its spare bytes.
    container = 4 if width == 3 else 8
    return read_at(data, f"<u{container}", positions).astype(np.int64) & ((1 << 8 * width) - 1)


def big_endian_at(data: Bytes, positions: Places, width: int) -> UInt64s:
    """Return the big-endian numbers of 1 to 8 bytes at these positions."""
    # In big-endian order the bytes of the following cell are the low ones, so a shift removes them.
    container = width if width <= 2 else 4 if width <= 4 else 8
    read: UInt64s = read_at(data, f">u{container}", positions).astype(np.uint64)
    return read >> np.uint64(8 * (container - width)) if container > width else read


def with_values_at(column: pa.Array, to: Int64s, values: pa.Array) -> pa.Array:
    """Return the column with values in these places."""
    index = np.arange(len(column))
    index[to] = len(column) + np.arange(len(values))
    return pa.concat_arrays([column, values.cast(column.type)]).take(pa.array(index))


def gathered(data: Bytes, positions: Int64s, width: int) -> Bytes:
    """Return `width` bytes from each position, as a matrix."""
    words = (width + 7) // 8
    if len(data) < 8 * words:
        data = np.concatenate([data, np.zeros(8 * words, np.uint8)])
    # Eight bytes per gather cost a fifth of gathering single bytes.
    numbers = at_every_byte(data, "<u8")
    matrix = np.empty((len(positions), words), np.uint64)
    for word in range(words):
        matrix[:, word] = numbers[positions + 8 * word]
    return matrix.view(np.uint8)[:, :width]


def fixed(kind: pa.DataType, values: npt.NDArray[Any], null: Bools) -> pa.Array:
    """Return an array of values whose memory layout already is Arrow's."""
    return pa.Array.from_buffers(kind, len(null), [validity(null), pa.py_buffer(np.ascontiguousarray(values))])


def booleans(values: Bools, null: Bools) -> pa.Array:
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(null), [validity(null), bits])


def padded(data: Bytes, start: Int64s, length: Int64s, width: int) -> Bytes:
    """Return the cells as a matrix of `width` bytes, short ones padded with zeros."""
    matrix = np.zeros((len(length), width), np.uint8)
    content, offsets = ranges(data, start, length)
    # The same index arithmetic as in `ranges`, with the beginnings of the matrix rows as destinations.
    places = np.repeat(np.arange(len(length)) * width - offsets[:-1], length)
    matrix.reshape(-1)[places + np.arange(len(content))] = content
    return matrix


def texts(matrix: Bytes, keep: Bools, null: Bools) -> pa.Array:
    """Return a string per line, made of its kept characters."""
    keep = keep & ~null[:, None]
    offsets = np.zeros(len(matrix) + 1, np.int64)
    np.cumsum(keep.sum(axis=1), out=offsets[1:])
    return of_offsets(pa.string(), matrix[keep], offsets, null)


def with_spare_bytes(data: bytes | bytearray) -> Bytes:
    """Return the bytes as an array, followed by the spare bytes that readers rely on."""
    return np.frombuffer(bytes(data) + bytes(SPARE), np.uint8)


def as_128_bits(groups: list[tuple[int, Int64s]], negative: Bools) -> UInt64s:
    """Return 128-bit two's complement, low half first.

    Beyond 18 digits the sum is carried over four limbs of 32 bits.
    """
    # Each number of 18 digits fits into 63 bits.
    if sum(digits for digits, _ in groups) <= 18:
        value = groups[0][1] if groups else np.zeros(len(negative), np.int64)
        for digits, group in groups[1:]:
            value = value * 10**digits + group
        halves = np.empty((len(negative), 2), np.int64)
        halves[:, 0] = np.where(negative, -value, value) if has_any(negative) else value
        # The arithmetic shift fills the high half with the sign.
        np.right_shift(halves[:, 0], 63, out=halves[:, 1])
        return halves.view(np.uint64)
    limbs = np.zeros((4, len(negative)), np.uint64)
    for digits, group in groups:
        _multiply_add(limbs, 10**digits, group)
    low, high = limbs[0] | limbs[1] << np.uint64(32), limbs[2] | limbs[3] << np.uint64(32)
    # The negative number is the complement plus one. The one is carried into the high half only if the low half is
    # zero.
    inverted = ~low + np.uint64(1)
    return np.stack([np.where(negative, inverted, low), np.where(negative, ~high + (inverted == 0), high)], axis=1)


def _multiply_add(limbs: UInt64s, factor: int, addend: Int64s) -> None:
    carry = addend.astype(np.uint64)
    for limb in limbs:
        # Groups have at most 9 digits, so the product of a 32-bit limb and the factor, plus the carry, fits into 64
        # bits.
        total = limb * np.uint64(factor) + carry
        limb[:] = total & np.uint64(0xFFFFFFFF)
        carry = total >> np.uint64(32)
