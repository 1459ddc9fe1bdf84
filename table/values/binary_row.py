"""BinaryRow: the row bytes of partitions, keys and statistics, and the input of hashes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import TableCorrupt
from penstock.table.values.buffers import Bytes, Ints
from penstock.table.values.row_codec import decode_body, encode_body
from penstock.table.values.row_columns import RowColumns, Tail, row_columns
from penstock.table.values.types import DataType

_ARITY = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class BinaryRows:
    """The bytes of many rows, concatenated, without arity prefixes. Row i is data[offsets[i]:offsets[i + 1]]."""

    offsets: Ints
    data: Bytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """Return one row of internal values as bytes with the arity prefix, the form that manifests contain."""
    return _ARITY.pack(len(types)) + encode_body(values, types)


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[object, ...]:
    """Return the internal values of a row that has the arity prefix.

    Raise TableCorrupt when the bytes are not such a row.
    """
    if len(data) < 4 or _ARITY.unpack_from(data)[0] != len(types):
        raise TableCorrupt(f"not a row of {len(types)} fields", row=data[:64].hex())
    try:
        # The four bytes before the row are its arity prefix.
        return decode_body(data, 4, tuple(types))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise TableCorrupt(
            f"a row of {len(types)} fields is truncated or was written by another program", row=data[:64].hex()
        ) from error


def encode_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> BinaryRows:
    """Return all rows of a batch without arity prefixes.

    Needs memory for the result once, plus the slots of the columns.
    """
    parts = row_columns(columns, types)
    offsets = np.zeros(parts.count + 1, np.int64)
    np.cumsum(parts.sizes, out=offsets[1:])
    data = np.zeros(offsets[-1], np.uint8)
    _lay_heads(data, offsets, parts)
    # `place` is where the next variable part of each row begins. Tails are written in the order of the columns,
    # because row_columns computed the offsets in the slots in that order.
    place = offsets[:-1] + parts.head_size + 8 * len(parts.slots)
    for tail in parts.tails:
        rows = slice(None) if tail.rows is None else tail.rows
        _lay_tail(data, place[rows], tail)
        place[rows] += tail.spans
    return BinaryRows(offsets, data)


def _lay_heads(data: Bytes, offsets: Ints, parts: RowColumns) -> None:
    head = np.zeros((parts.count, parts.head_size + 8 * len(parts.slots)), np.uint8)
    if parts.header is not None:
        head[:, : parts.head_size] = parts.header
    for i, slots in enumerate(parts.slots):
        begin = parts.head_size + 8 * i
        head[:, begin : begin + 8] = np.ascontiguousarray(slots).view(np.uint8).reshape(-1, 8)
    # Without variable parts all rows have the same size, so the heads are the whole result and are copied as one
    # block.
    if not parts.tails:
        data[:] = head.reshape(-1)
    else:
        data[offsets[:-1, None] + np.arange(head.shape[1])] = head


def _lay_tail(data: Bytes, place: Ints, tail: Tail) -> None:
    """Copy the variable part of every row into place. Rows of equal size are copied as one block."""
    for size in np.unique(tail.sizes):
        rows = np.flatnonzero(tail.sizes == size)
        part = tail if len(rows) == len(tail.sizes) else tail.take(rows)
        # Only the content is copied. The padding behind it stays zero as allocated, which equality and hashes of rows
        # rely on.
        data[place[rows, None] + np.arange(size)] = part.matrix(int(size))
