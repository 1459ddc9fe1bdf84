"""Construction of Arrow arrays from numpy buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.ingest.mysql.byte_view import SPARE, Bools, Bytes, Int64s, at_every_byte, gathered, ranges

# From this mean length on, a view array that Arrow copies is faster than a gather of single bytes (measured per cell:
# 52 against 145 ns at 4 to 10 bytes, 860 against 80 ns at 100).
_LONG = 16
_INLINE, _WORD = 12, 8


def validity(null: Bools) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None


def fixed(kind: pa.DataType, values: npt.NDArray[Any], null: Bools) -> pa.Array:
    """Return an array of values whose memory layout already is Arrow's."""
    return pa.Array.from_buffers(kind, len(null), [validity(null), pa.py_buffer(np.ascontiguousarray(values))])


def booleans(values: Bools, null: Bools) -> pa.Array:
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(null), [validity(null), bits])


def of_offsets(kind: pa.DataType, content: Bytes, offsets: Int64s, null: Bools) -> pa.Array:
    buffers = [validity(null), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, len(null), buffers)


def slices(kind: pa.DataType, data: Bytes, start: Int64s, length: Int64s, null: Bools) -> pa.Array:
    """Return the strings or binaries at these positions of the buffer."""
    length = np.where(null, 0, length) if null.any() else length
    total = int(length.sum())
    if total < _LONG * len(length) or len(data) > np.iinfo(np.int32).max:
        return of_offsets(kind, *ranges(data, start, length), null)
    view = pa.string_view() if pa.types.is_string(kind) else pa.binary_view()
    return _views(view, data, start, length, null).cast(kind)


def _views(kind: pa.DataType, data: Bytes, start: Int64s, length: Int64s, null: Bools) -> pa.Array:
    views = np.zeros((len(length), 4), np.int32)
    views[:, 0] = length
    long = length > _INLINE
    if long.any():
        places = start[long]
        views[long, 1] = at_every_byte(data, "<i4")[places]
        views[long, 3] = places
    short = np.flatnonzero(~long & (length > 0))
    if len(short):
        inline = _short_content(data, start[short], length[short])
        views[short, 1:] = inline.view(np.int32)
    return pa.Array.from_buffers(kind, len(length), [validity(null), pa.py_buffer(views), pa.py_buffer(data)])


def _short_content(data: Bytes, start: Int64s, length: Int64s) -> Bytes:
    # A short cell at the very end would be read beyond the buffer, so such reads are shifted back. They are made in
    # words of eight bytes.
    last = max(len(data) - 2 * _WORD, 0)
    begin = np.minimum(start, last)
    content = gathered(data, begin, _INLINE)
    for place in np.flatnonzero(begin < start):
        piece = data[start[place] : start[place] + length[place]]
        content[place, : len(piece)] = piece
    content[np.arange(_INLINE) >= length[:, None]] = 0
    return content


def padded(data: Bytes, start: Int64s, length: Int64s, width: int) -> Bytes:
    """Return the cells as a matrix of `width` bytes, short ones padded with zeros."""
    matrix = np.zeros((len(length), width), np.uint8)
    content, offsets = ranges(data, start, length)
    places = np.repeat(np.arange(len(length)) * width - offsets[:-1], length)
    matrix.reshape(-1)[places + np.arange(len(content))] = content
    return matrix


def texts(matrix: Bytes, keep: Bools, null: Bools) -> pa.Array:
    """Return a string per line, made of its kept characters."""
    keep = keep & ~null[:, None]
    offsets = np.zeros(len(matrix) + 1, np.int64)
    np.cumsum(keep.sum(axis=1), out=offsets[1:])
    return of_offsets(pa.string(), matrix[keep], offsets, null)


def spare(data: bytes | bytearray) -> Bytes:
    """Return the bytes as an array, followed by the spare bytes that readers rely on."""
    return np.frombuffer(bytes(data) + bytes(SPARE), np.uint8)
