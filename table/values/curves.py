"""Sort orders over several columns: lexicographic, along the z-curve, and along the Hilbert curve.

Each value becomes a code of bytes that sort as the values do, and the curves interleave the bits of the codes.
Positions on the z-curve equal Java Paimon's except for decimals and negative floats, because Java's codes for those do
not increase with the values. On the Hilbert curve, negative numbers have other positions than in Java.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.values.buffers import Bytes, Words, decimal_words, filled_values, padded, text_parts, validity
from penstock.table.values.types import AtomicType, DataType

WORD = 8
_SIGN = np.uint64(1 << 63)
_INTEGERS = {"TINYINT": np.int8, "SMALLINT": np.int16, "INT": np.int32, "BIGINT": np.int64}
_TEXTS = {"CHAR", "VARCHAR", "BINARY", "VARBINARY"}
# Java's code of true is -127 as a signed byte.
_TRUE = 0x81
# Each bit becomes a whole byte, so a block needs eight times the memory of its codes.
_BLOCK = 1 << 16  # number of rows whose bits are expanded at a time


def value_codes(column: pa.Array, type_: DataType, text_width: int = WORD) -> Bytes:
    """Return one row of bytes per value, in the sort order of the values. Null is all zeros.

    The code of a text consists of its first `text_width` bytes.
    """
    if not isinstance(type_, AtomicType) or type_.root == "VARIANT":
        raise ConfigError(
            "rows cannot be ordered by a column of nested values", hint="order by columns of numbers, texts or times"
        )
    if type_.root in _TEXTS:
        codes = _text_codes(column, text_width)
    elif type_.root == "BOOLEAN":
        codes = np.zeros((len(column), WORD), np.uint8)
        codes[:, 0] = np.where(filled_values(column, np.uint8), _TRUE, 0)
    else:
        codes = _bytes_of(_ordered_words(column, type_))
    present = validity(column)
    if present is not None:
        codes = np.where(present[:, None], codes, np.uint8(0))
    return codes


def _ordered_words(column: pa.Array, type_: AtomicType) -> Words:
    match type_.root:
        case "FLOAT" | "DOUBLE":
            return _of_doubles(filled_values(column, np.float32 if type_.root == "FLOAT" else np.float64))
        case "DECIMAL":
            low, high = decimal_words(column)
            # If the high half only repeats the sign of the low half, the value fits into 64 bits and is converted in
            # one step.
            short = low.view(np.int64)
            wide = high.astype(np.float64) * 2.0**64 + low.astype(np.float64)
            return _of_doubles(np.where(high == short >> 63, short.astype(np.float64), wide))
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            # Java orders timestamps by their milliseconds and ignores finer digits.
            millis = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
            return _of_integers(filled_values(millis, np.int64))
        case "DATE" | "TIME":
            return _of_integers(filled_values(column, np.int32))
        case root:
            return _of_integers(filled_values(column, _INTEGERS[root]))


def _of_integers(values: npt.NDArray[Any]) -> Words:
    # With the sign bit flipped, negative numbers precede the others in the order of unsigned bytes.
    return values.astype(np.int64).view(np.uint64) ^ _SIGN


def _of_doubles(values: npt.NDArray[Any]) -> Words:
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    # Flips the sign bit of positive numbers, and all bits of negative ones, whose bits are in the reverse order.
    return (bits ^ ((bits >> 63) | np.int64(-(1 << 63)))).view(np.uint64)


def _text_codes(column: pa.Array, width: int) -> Bytes:
    # The width counts bytes. A slice of a string column would count characters.
    binary = pa.binary() if pa.types.is_string(column.type) else column.type
    texts = pc.fill_null(pc.binary_slice(column.cast(binary), 0, width), b"")
    return padded(*text_parts(texts), width)


def z_codes(columns: Sequence[Bytes]) -> Bytes:
    """Interleave the bits of all columns, the most significant first. Columns that have run out of bits are skipped."""
    most = max(column.shape[1] for column in columns) * 8
    turns = [(bit, number) for bit in range(most) for number, column in enumerate(columns) if bit < column.shape[1] * 8]
    out = np.empty((len(columns[0]), len(turns) // 8), np.uint8)
    for start in range(0, len(out), _BLOCK):
        bits = [np.unpackbits(column[start : start + _BLOCK], axis=1) for column in columns]
        spread = np.stack([bits[number][:, bit] for bit, number in turns], axis=1)
        out[start : start + _BLOCK] = np.packbits(spread, axis=1)
    return out


def hilbert_codes(columns: Sequence[Bytes]) -> Bytes:
    """Return the positions of the rows on the Hilbert curve.

    Skilling's algorithm (AIP Conf. Proc. 707, 2004) transforms the coordinates, whose bits are then interleaved.
    """
    # Skilling's first step, from the highest bit to the lowest: where the bit of an axis is set, the lower bits of
    # the first axis are inverted, otherwise both axes exchange their lower bits.
    axes = [leading_words(column).copy() for column in columns]
    for power in range(63, 0, -1):
        bit, below = np.uint64(1 << power), np.uint64((1 << power) - 1)
        for axis in axes:
            high = (axis & bit) != 0
            swapped = np.where(high, np.uint64(0), (axes[0] ^ axis) & below)
            axes[0] ^= np.where(high, below, swapped)
            if axis is not axes[0]:
                axis ^= swapped
    # The second step is the Gray code over all axes.
    for before, axis in pairwise(axes):
        axis ^= before  # in place: the next iteration uses the new value
    flip = np.zeros_like(axes[0])
    for power in range(63, 0, -1):
        flip ^= np.where(axes[-1] & np.uint64(1 << power), np.uint64((1 << power) - 1), np.uint64(0))
    return z_codes([_bytes_of(axis ^ flip) for axis in axes])


def leading_words(codes: Bytes) -> Words:
    """Return the first eight bytes of each code as one number."""
    if codes.shape[1] < WORD:
        codes = np.pad(codes, ((0, 0), (0, WORD - codes.shape[1])))
    return np.ascontiguousarray(codes[:, :WORD]).view(">u8").reshape(-1).astype(np.uint64)


def code_order(codes: Bytes) -> npt.NDArray[np.int64]:
    """Return the permutation that sorts the codes stably."""
    width = -codes.shape[1] % WORD
    whole = np.pad(codes, ((0, 0), (0, width))) if width else np.ascontiguousarray(codes)
    words = whole.view(">u8").astype(np.uint64)
    # lexsort is stable, and its last key is the primary one.
    return np.lexsort(words.T[::-1])


def _bytes_of(words: Words) -> Bytes:
    return words.astype(">u8").view(np.uint8).reshape(-1, WORD)
