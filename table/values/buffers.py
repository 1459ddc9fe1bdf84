"""Arrow arrays as numpy arrays over the same memory. Slices are respected; callers must handle nulls.

These functions replace `Array.to_numpy`, whose first call in a process imports pandas, about one CPU second.

The types of the arrays have names here, which all code of tables uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DecodeError

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]  # eight bytes of a key, as an integer with the same order
Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]


Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

# Texts, binaries and lists of Arrow have offsets of 32 bits, so an array has less than 2 GiB of text and less than 2^31
# members, which are as few bytes as this if they are booleans.
MOST_BYTES = 1 << 27


def rows_at(rows: Rows, places: Ints, absent: Flags | None = None) -> Rows:
    """Return the rows at these positions, which must exist: checking them would cost a sixth of the whole call.

    Where `absent` is true, it is a row of nulls. DecodeError for a batch with a row that is repeated so often that a
    column would have 2 GiB; a table gets several chunks.
    """
    # Indices of 32 bits suffice below 2^31 rows and halve the memory that `take` reads for them.
    narrow = places.astype(np.int32) if rows.num_rows < 1 << 31 else places
    try:
        return pc.take(rows, pa.array(narrow, mask=absent), boundscheck=False)
    except pa.ArrowInvalid as reason:
        # `take` joins the chunks of a column first, which fails if there are 2 GiB of them.
        if "overflow" not in str(reason):
            raise
        if isinstance(rows, pa.RecordBatch):
            raise _too_long(len(places), rows) from reason
        return pa.concat_tables(_in_parts(rows, places, absent))


def _in_parts(rows: pa.Table, places: Ints, absent: Flags | None) -> Iterator[pa.Table]:
    """Yield the rows at these places in parts. Each is taken from the rows of the part only."""
    if len(places) == 1 and absent is None:
        yield rows.slice(int(places[0]), 1)
        return
    size = min(max(MOST_BYTES * rows.num_rows // rows.nbytes, 1), -(-len(places) // 2))
    for begin in range(0, len(places), size):
        nulls = None if absent is None else absent[begin : begin + size]
        found = places[begin : begin + size] if nulls is None else np.where(nulls, 0, places[begin : begin + size])
        wanted, order = np.unique(found, return_inverse=True)
        mask = np.zeros(rows.num_rows, np.bool_)
        mask[wanted] = True
        yield rows_at(rows.filter(pa.array(mask)), order, nulls)


def bounded(rows: Rows, most: int = MOST_BYTES) -> Iterator[Rows]:
    """Yield the rows in slices of at most `most` bytes; a larger row gets a slice to itself."""
    if rows.num_rows <= 1 or rows.nbytes <= most:
        yield rows
        return
    half = rows.num_rows // 2
    yield from bounded(rows.slice(0, half), most)
    yield from bounded(rows.slice(half), most)


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Return the rows as one batch; DecodeError if a column would have more than a batch can have.

    `combine_chunks` leaves such a column in several chunks, so that its first batch would lack rows.
    """
    try:
        batches = rows.combine_chunks().to_batches()
    except pa.ArrowInvalid as reason:  # a column of lists
        raise _too_long(rows.num_rows, rows) from reason
    if len(batches) > 1:
        raise _too_long(rows.num_rows, rows)
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def _too_long(wanted: int, rows: pa.Table | pa.RecordBatch) -> DecodeError:
    """Return the error for this number of rows; if it is more than `rows`, these are repeated."""
    size = f"{wanted} rows of {rows.nbytes} bytes"
    if wanted != rows.num_rows:
        size = f"{wanted} rows that repeat {rows.num_rows} rows of {rows.nbytes} bytes"
    return DecodeError(
        f"{size} do not fit into one batch, whose columns have less than 2 GiB each",
        columns=", ".join(rows.column_names),
        hint="process fewer rows at a time, or leave their long columns out",
    )


def read_out(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with the texts themselves in place of their places in a dictionary."""
    for place, column in enumerate(rows.columns):
        if pa.types.is_dictionary(column.type):
            field = rows.schema.field(place).with_type(column.type.value_type)
            rows = rows.set_column(place, field, text_array(column))
    return rows


def text_array(column: pa.Array) -> pa.Array:
    """Return a column without a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def one_array(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column of any Arrow encoding as a single array of exactly this type."""
    if isinstance(column, pa.ChunkedArray):
        # A single chunk is used as it is: combining would copy it.
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column if column.type.equals(type_) else column.cast(type_)


def fixed_values(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """Return the values of a fixed-width array in a `dtype` of the same width; booleans become one byte per value."""
    if pa.types.is_boolean(array.type):
        # Arrow packs eight booleans into a byte, which numpy cannot address.
        array = array.cast(pa.uint8())
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype)
    item = np.dtype(dtype).itemsize
    # No copy: the result is read-only and shares the memory of the Arrow buffer.
    return np.frombuffer(data, dtype, len(array), array.offset * item)


def filled_values(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """Return the values as fixed_values does, with nulls replaced by zero."""
    # Arrow does not define the bytes under a null. Equal rows must have equal bytes, so they are replaced.
    values = fixed_values(array, dtype)
    present = validity(array)
    return values if present is None else np.where(present, values, np.zeros((), dtype))


def decimal_words(array: pa.Array) -> tuple[npt.NDArray[np.uint64], Ints]:
    """Return the low and the high half of the unscaled 128-bit values; nulls become zero."""
    words = np.frombuffer(array.buffers()[1], "<i8", 2 * len(array), array.offset * 16).reshape(-1, 2)
    present = validity(array)
    if present is not None:
        words = np.where(present[:, None], words, 0)
    return words[:, 0].view("<u8"), words[:, 1]


def validity(array: pa.Array) -> Flags | None:
    """Return the mask of the values that are not null, or None if no value is null."""
    if array.null_count == 0:
        return None
    return np.asarray(fixed_values(pc.is_valid(array), np.uint8)).view(np.bool_)


def text_parts(array: pa.Array) -> tuple[Ints, Bytes]:
    """Return the lengths and the concatenated bytes of a string or binary array without nulls."""
    if len(array) == 0:
        return np.empty(0, np.int64), np.empty(0, np.uint8)
    _, offsets, data = array.buffers()
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    item = np.dtype(np.int64 if wide else np.int32)
    # A slice has the offsets of the whole array, so the bytes of its texts begin at the first offset and not at zero.
    ends = np.frombuffer(offsets, item, len(array) + 1, array.offset * item.itemsize).astype(np.int64)
    body = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return np.diff(ends), body[ends[0] : ends[-1]]


def padded(lengths: Ints, data: Bytes, width: int) -> Bytes:
    """Return a matrix with one row of `width` bytes per value, padded with zeros. No length may exceed the width."""
    count = len(lengths)
    # Values of equal length need no index: the bytes only change their shape.
    if count and lengths.min() == lengths.max():
        size = int(lengths[0])
        rows = data.reshape(count, size)
        if size == width:
            return rows
        out = np.zeros((count, width), np.uint8)
        out[:, :size] = rows
        return out
    out = np.zeros((count, width), np.uint8)
    # numpy fills the places of a mask row by row, which is the order of the concatenated bytes.
    out[np.arange(width) < lengths[:, None]] = data
    return out


def array_like(values: npt.NDArray[np.generic], model: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a fixed-width array of these values that is null where `model` is null."""
    # The bitmap is computed again, because that of a slice may begin in the middle of a byte.
    bitmap = pc.is_valid(model).buffers()[1] if model.null_count else None
    return pa.Array.from_buffers(type_, len(values), [bitmap, pa.py_buffer(np.ascontiguousarray(values))])
