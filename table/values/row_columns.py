"""The parts of the BinaryRows of a batch, per column: null bits, 8-byte slots, and tails in the variable part.

All data is kept in columns. Rows are built only if binary_row.encode_rows is called; hashes are computed from the
columns (hashing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.arrow_types import timestamp_unit, to_arrow
from penstock.table.values.buffers import (
    Bytes,
    Flags,
    Ints,
    decimal_words,
    filled_values,
    one_array,
    padded,
    text_parts,
)
from penstock.table.values.buffers import validity as valid_mask
from penstock.table.values.internal import internal_values
from penstock.table.values.row_codec import encode_nested, header_size, is_wide_decimal, is_wide_timestamp
from penstock.table.values.types import AtomicType, DataType

Slots = npt.NDArray[np.uint64]
_DTYPES = {
    "BOOLEAN": "<u1",
    "TINYINT": "<u1",
    "SMALLINT": "<u2",
    "INT": "<u4",
    "DATE": "<u4",
    "TIME": "<u4",
    "FLOAT": "<u4",
    "BIGINT": "<u8",
    "DOUBLE": "<u8",
}
_PER_MILLI = {"us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class Tail:
    """The variable part of one column.

    `rows` are the rows that have a variable part, None if all have one; `sizes` are the sizes before padding. `body` is
    a matrix with one row of bytes per value, or an Arrow array of texts without nulls.
    """

    rows: Ints | None
    sizes: Ints
    body: Bytes | pa.Array

    @property
    def spans(self) -> Ints:
        """Return the sizes rounded up to whole words, as the variable part stores them."""
        return (self.sizes + 7) & ~np.int64(7)

    def matrix(self, width: int) -> Bytes:
        """Return one row of `width` bytes per value, padded with zeros. `width` is at least the longest size."""
        if isinstance(self.body, np.ndarray):
            return self.body
        lengths, data = text_parts(self.body)
        return padded(lengths, data, width)

    def take(self, order: Ints) -> Tail:
        """Return these entries of the tail, in this order."""
        body = self.body[order] if isinstance(self.body, np.ndarray) else self.body.take(pa.array(order))
        return Tail(order if self.rows is None else self.rows[order], self.sizes[order], body)


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The columns of a batch from which rows or hashes are computed.

    `header` contains the null bits of every row (None if no row has a null), `slots` one array per column, and `tails`
    the variable parts in column order.
    """

    count: int
    header: Bytes | None
    slots: tuple[Slots, ...]
    tails: tuple[Tail, ...]
    sizes: Ints

    @property
    def head_size(self) -> int:
        return header_size(len(self.slots))


def row_columns(columns: Sequence[pa.Array], types: Sequence[DataType]) -> RowColumns:
    """Return the columns of a batch in the form from which rows or hashes are computed."""
    arrays = [one_array(column, to_arrow(type_)) for column, type_ in zip(columns, types, strict=True)]
    count = len(arrays[0]) if arrays else 0
    header = _header(arrays, count)
    # `ends` is where the next variable part of each row begins, and in the end the size of the row. A column's
    # references need it before the column's own tail is added.
    ends = np.full(count, header_size(len(types)) + 8 * len(types), np.int64)
    slots: list[Slots] = []
    tails: list[Tail] = []
    for array, type_ in zip(arrays, types, strict=True):
        slot, tail = _column(array, type_, ends)
        slots.append(slot)
        if tail is not None:
            tails.append(tail)
            if tail.rows is None:
                ends = ends + tail.spans
            else:
                ends[tail.rows] += tail.spans
    return RowColumns(count, header, tuple(slots), tuple(tails), ends)


def _header(arrays: Sequence[pa.Array], count: int) -> Bytes | None:
    """Return the header bytes of every row, or None when no row contains a null."""
    header: Bytes | None = None
    for i, array in enumerate(arrays):
        present = valid_mask(array)
        if present is not None:
            if header is None:
                header = np.zeros((count, header_size(len(arrays))), np.uint8)
            header[:, (i + 8) // 8] |= (~present).view(np.uint8) << np.uint8((i + 8) % 8)
    return header


def _column(array: pa.Array, type_: DataType, ends: Ints) -> tuple[Slots, Tail | None]:
    match type_:
        case AtomicType("CHAR" | "VARCHAR" | "BINARY" | "VARBINARY"):
            return _texts(array, ends)
        case AtomicType("DECIMAL"):
            return _wide_decimals(array, ends) if is_wide_decimal(type_) else (decimal_words(array)[0], None)
        case AtomicType("TIMESTAMP" | "TIMESTAMP_LTZ"):
            return _timestamps(array, type_, ends)
        case AtomicType(root) if root in _DTYPES:
            return filled_values(array, _DTYPES[root]).astype("<u8"), None
    return _nested(array, type_, ends)


def _references(ends: Ints, low: Ints) -> Slots:
    return (ends << np.int64(32) | low).view("<u8")


def _timestamps(array: pa.Array, type_: AtomicType, ends: Ints) -> tuple[Slots, Tail | None]:
    # Nulls are filled with zero. A wide timestamp that is null still reserves its eight bytes, as in Java.
    values = np.asarray(filled_values(array, "<i8"), np.int64)
    unit = timestamp_unit(type_.precision)
    if not is_wide_timestamp(type_):
        return (values * 1000 if unit == "s" else values).view("<u8"), None
    millis, rest = np.divmod(values, _PER_MILLI[unit])
    nanos = rest * (1000 if unit == "us" else 1)
    body = np.ascontiguousarray(millis).view(np.uint8).reshape(-1, 8)
    return _references(ends, nanos), Tail(None, np.full(len(array), 8, np.int64), body)


def _wide_decimals(array: pa.Array, ends: Ints) -> tuple[Slots, Tail]:
    low, high = decimal_words(array)
    # BinaryRow stores the shortest big-endian two's complement, at the beginning of its 16 bytes. Arrow has 16
    # little-endian bytes: they are reversed, and the bytes that only repeat the sign are moved out.
    big = np.empty((len(array), 2), ">u8")
    big[:, 0], big[:, 1] = high.view("<u8"), low
    bytes_ = big.view(np.uint8)
    sign = (high >> np.int64(63)).astype(np.int8).view(np.uint8)
    lead = _leading_sign_bytes(bytes_, sign)
    sizes = 16 - lead
    places = np.minimum(np.arange(16) + lead[:, None], 15)
    body = np.where(np.arange(16) < sizes[:, None], np.take_along_axis(bytes_, places, 1), 0).astype(np.uint8)
    present = valid_mask(array)
    if present is not None:
        body, sizes = np.where(present[:, None], body, 0).astype(np.uint8), np.where(present, sizes, 0)
    # A wide decimal always occupies 16 bytes, whatever the size of its value.
    return _references(ends, sizes), Tail(None, np.full(len(array), 16, np.int64), body)


def _leading_sign_bytes(big: Bytes, sign: Bytes) -> Ints:
    """Return how many leading bytes only repeat the sign; the remaining bytes are the shortest two's complement."""
    other = big != sign[:, None]
    lead = np.where(other.any(axis=1), other.argmax(axis=1), 16)
    first = np.take_along_axis(big, np.minimum(lead, 15)[:, None], 1)[:, 0]
    # If the first byte that differs has the wrong sign bit, one byte of the sign must stay. So must one of 0 and -1.
    flips = (lead == 16) | ((first ^ sign) >= 0x80)
    return np.asarray(lead - flips, np.int64)


def _texts(array: pa.Array, ends: Ints) -> tuple[Slots, Tail | None]:
    present = valid_mask(array)
    if present is not None:
        array = pc.fill_null(array, pa.scalar("" if pa.types.is_string(array.type) else b"", array.type))
    lengths, data = text_parts(array)
    # Up to seven bytes are in the slot itself. Mostly all texts of a column are long or all are short, which the
    # first two cases handle without selecting rows.
    long = lengths > 7
    if long.all() and len(long):
        return _references(ends, lengths), Tail(None, lengths, array)
    if not long.any():
        return _inline(lengths, data, present), None
    rows = np.flatnonzero(long)
    slots = np.empty(len(array), "<u8")
    slots[rows] = _references(ends[rows], lengths[rows])
    short = np.flatnonzero(~long)
    rest = array.take(pa.array(short))
    slots[short] = _inline(lengths[short], text_parts(rest)[1], None if present is None else present[short])
    return slots, Tail(rows, lengths[rows], array.take(pa.array(rows)))


def _inline(lengths: Ints, data: Bytes, present: Flags | None) -> Slots:
    matrix = padded(lengths, data, 8)
    # padded() made a new matrix, since no text fills all eight bytes, so it may be written to.
    matrix[:, 7] = 0x80 | lengths
    slots = matrix.view("<u8")[:, 0]
    return slots if present is None else np.where(present, slots, np.uint64(0))


def _nested(array: pa.Array, type_: DataType, ends: Ints) -> tuple[Slots, Tail | None]:
    # Nested columns are neither keys nor statistics, so encoding value by value is fast enough.
    texts = [None if value is None else encode_nested(value, type_) for value in internal_values(array, type_)]
    rows = np.flatnonzero([text is not None for text in texts])
    body = pa.array([text for text in texts if text is not None], pa.binary())
    sizes = text_parts(body)[0]
    slots = np.zeros(len(array), "<u8")
    slots[rows] = _references(ends[rows], sizes)
    return slots, Tail(rows, sizes, body)
