"""INT96 timestamps: read as 12 raw bytes and converted here, since Arrow makes nanoseconds of them, which overflow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import TableCorrupt
from penstock.table.files.parquet.thrift import I32, Struct, ThriftReader, struct_bytes
from penstock.table.files.relayout import map_leaves, moments

RAW = pa.binary(12)
_MAGIC = b"PAR1"
_INT96, _FIXED_BYTES, _WIDTH = 3, 7, 12
# The Julian day of 1970-01-01.
_EPOCH_DAY = 2440588
_DAY_SECONDS = 86_400


def has_int96(metadata: Any, places: Sequence[int]) -> bool:
    """Return whether any of these columns of row groups contains INT96 values."""
    schema = metadata.schema
    return any(schema.column(place).physical_type == "INT96" for place in places)


def raw_metadata(source: Any) -> Any:
    """Return the footer of a Parquet file with its INT96 columns declared as fixed 12 bytes."""
    size = source.size()
    length = int.from_bytes(source.read_at(8, size - 8)[:4], "little")
    try:
        # A Parquet file ends with the footer, its length in four bytes, and the magic bytes.
        footer = ThriftReader(bytes(source.read_at(length, size - 8 - length))).struct()
    except (ValueError, IndexError) as reason:
        raise TableCorrupt("the footer of a Parquet file cannot be read") from reason
    _declare_raw(footer)
    data = struct_bytes(footer)
    return pq.read_metadata(io.BytesIO(_MAGIC + data + len(data).to_bytes(4, "little") + _MAGIC))


def _declare_raw(footer: Struct) -> None:
    # Field numbers are those of the Parquet specification: 2 is the schema of the file, with the type of an element
    # in field 1 and its length in 2; 4 are the row groups, whose column chunks have the type in their metadata.
    for element in footer.structs(2):
        if element.get(1) == _INT96:
            element.fields[1] = (I32, _FIXED_BYTES)
            element.fields[2] = (I32, _WIDTH)
    for group in footer.structs(4):
        for chunk in group.structs(1):
            column = chunk.get(3)
            if isinstance(column, Struct) and column.get(1) == _INT96:
                column.fields[1] = (I32, _FIXED_BYTES)


def decode_moments(array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    """Return raw INT96 values, at any depth, as the timestamps of `target`."""
    return map_leaves(array, target, lambda leaf, type_: _moments(leaf, type_, column) if leaf.type == RAW else leaf)


def _moments(leaf: pa.Array, type_: pa.DataType, column: str) -> pa.Array:
    # INT96 is the nanoseconds of the day and the Julian day, both little-endian.
    raw = np.frombuffer(leaf.buffers()[1], [("nanos", "<i8"), ("day", "<i4")], len(leaf), leaf.offset * _WIDTH)
    days = raw["day"].astype(np.int64) - _EPOCH_DAY
    return moments(leaf, days * _DAY_SECONDS, raw["nanos"], type_, column)
