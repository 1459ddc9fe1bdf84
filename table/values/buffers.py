"""Arrow arrays as numpy arrays over the same memory. Slices are respected; nulls are the caller's affair.

Not `Array.to_numpy`: its first call in a process imports pandas, about one CPU second.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def rows_at(rows: Rows, places: Ints) -> Rows:
    """The rows at places that are there: asking for each whether it is costs a sixth of fetching it."""
    narrow = places.astype(np.int32) if rows.num_rows < 1 << 31 else places
    return pc.take(rows, pa.array(narrow), boundscheck=False)


def set_places(mask: pa.BooleanArray) -> Ints:
    """Where a mask without nulls holds."""
    return np.flatnonzero(fixed_values(mask, np.uint8))


def one_array(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column of any Arrow encoding as one array of just this type."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column if column.type.equals(type_) else column.cast(type_)


def fixed_values(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """The values of a fixed-width array, in `dtype` of the same width; a boolean column takes a byte a value."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype)
    item = np.dtype(dtype).itemsize
    return np.frombuffer(data, dtype, len(array), array.offset * item)


def filled_values(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """As fixed_values, with zero in place of nulls."""
    values = fixed_values(array, dtype)
    present = validity(array)
    return values if present is None else np.where(present, values, np.zeros((), dtype))


def decimal_words(array: pa.Array) -> tuple[npt.NDArray[np.uint64], Ints]:
    """The low and the high half of the unscaled 128-bit values; nulls are zero."""
    words = np.frombuffer(array.buffers()[1], "<i8", 2 * len(array), array.offset * 16).reshape(-1, 2)
    present = validity(array)
    if present is not None:
        words = np.where(present[:, None], words, 0)
    return words[:, 0].view("<u8"), words[:, 1]


def validity(array: pa.Array) -> Mask | None:
    """Where values are, or None when they are everywhere."""
    if array.null_count == 0:
        return None
    return np.asarray(fixed_values(pc.is_valid(array), np.uint8)).view(np.bool_)


def text_parts(array: pa.Array) -> tuple[Ints, Bytes]:
    """Lengths and the bytes end to end, of a string or binary array without nulls."""
    if len(array) == 0:
        return np.empty(0, np.int64), np.empty(0, np.uint8)
    _, offsets, data = array.buffers()
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    item = np.dtype(np.int64 if wide else np.int32)
    ends = np.frombuffer(offsets, item, len(array) + 1, array.offset * item.itemsize).astype(np.int64)
    body = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return np.diff(ends), body[ends[0] : ends[-1]]


def padded(lengths: Ints, data: Bytes, width: int) -> Bytes:
    """One row of `width` bytes a value, zeros behind. No length exceeds the width."""
    count = len(lengths)
    if count and lengths.min() == lengths.max():
        size = int(lengths[0])
        rows = data.reshape(count, size)
        if size == width:
            return rows
        out = np.zeros((count, width), np.uint8)
        out[:, :size] = rows
        return out
    out = np.zeros((count, width), np.uint8)
    out[np.arange(width) < lengths[:, None]] = data
    return out


def array_like(values: npt.NDArray[np.generic], model: pa.Array, type_: pa.DataType) -> pa.Array:
    """A fixed-width array of these values, null where `model` is."""
    bitmap = pc.is_valid(model).buffers()[1] if model.null_count else None
    return pa.Array.from_buffers(type_, len(values), [bitmap, pa.py_buffer(np.ascontiguousarray(values))])
