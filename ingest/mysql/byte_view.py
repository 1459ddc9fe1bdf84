"""Reading of numbers at arbitrary positions of a buffer, many at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Every buffer ends with this many spare bytes, so that an eight-byte read of the last cell stays inside.
SPARE = 8


def at_every_byte(data: Bytes, dtype: str) -> npt.NDArray[Any]:
    """Return the buffer as numbers that start at each byte, to be indexed by positions. Overlapping, so read-only."""
    kind = np.dtype(dtype)
    return np.ndarray(max(len(data) - kind.itemsize + 1, 0), kind, buffer=data.data, strides=(1,))


def unsigned_at(data: Bytes, positions: Int64s, width: int) -> Int64s:
    """Return the little-endian numbers of 1 to 7 bytes at these positions."""
    if width == 1:
        return data[positions].astype(np.int64)
    if width in {2, 4}:
        return at_every_byte(data, f"<u{width}")[positions].astype(np.int64)
    container = 4 if width == 3 else 8
    return at_every_byte(data, f"<u{container}")[positions].astype(np.int64) & ((1 << 8 * width) - 1)


def big_endian_at(data: Bytes, positions: Int64s, width: int) -> npt.NDArray[np.uint64]:
    """Return the big-endian numbers of 1 to 8 bytes at these positions."""
    if width == 1:
        return data[positions].astype(np.uint64)
    container = 2 if width == 2 else 4 if width <= 4 else 8
    read = at_every_byte(data, f">u{container}")[positions].astype(np.uint64)
    return read >> np.uint64(8 * (container - width))


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


def ranges(data: Bytes, positions: Int64s, lengths: Int64s) -> tuple[Bytes, Int64s]:
    """Return the bytes of all ranges one after another, and their offsets (one more than ranges)."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    index = np.repeat(positions - offsets[:-1], lengths)
    index += np.arange(len(index))
    return data[index], offsets
