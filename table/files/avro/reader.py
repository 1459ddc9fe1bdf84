"""Reader and writer of Avro data files. Both work by columns, except for arrays and maps when reading.

Avro is slower than Parquet and never the default.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import cramjam
import fastavro
import numpy as np
import pyarrow as pa
from fastavro.schema import SchemaParseException
from fastavro.write import Writer

from penstock.errors import TableCorrupt
from penstock.table.files.avro.decode import Block, can_decode, decoded
from penstock.table.files.avro.encode import counted, encoded_blocks
from penstock.table.files.avro.schema import record_schema, without_logical_types
from penstock.table.files.columns import stored_rows
from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.encoding import Encoding
from penstock.table.meta.avro_blocks import AvroBlocks
from penstock.table.values.arrow_types import arrow_schema, to_arrow
from penstock.table.values.internal import entry_types
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType

_DECIMAL_BYTES = 16


def from_avro(values: Sequence[Any], type_: DataType) -> pa.Array:
    """Return the values as an Arrow array of the type that memory uses for `type_`."""
    arrow = to_arrow(type_)
    match type_:
        case AtomicType():
            return _atom_column(values, type_, arrow)
        case ArrayType(element):
            child = from_avro(list(chain.from_iterable(value for value in values if value is not None)), element)
            return _nested(values, arrow, child)
        case MapType() | MultisetType():
            pairs = list(chain.from_iterable(map(_pairs, values)))
            members = [from_avro([pair[i] for pair in pairs], of) for i, of in enumerate(entry_types(type_))]
            child = pa.StructArray.from_arrays(members, fields=[arrow.key_field, arrow.item_field])
            return _nested(values, arrow, child)
        case RowType(fields):
            columns = [[None if row is None else row[field.name] for row in values] for field in fields]
            members = [from_avro(column, field.type) for column, field in zip(columns, fields, strict=True)]
            missing = pa.array([row is None for row in values], pa.bool_())
            return pa.StructArray.from_arrays(
                members, fields=[arrow.field(i) for i in range(arrow.num_fields)], mask=missing
            )


def _atom_column(values: Sequence[Any], type_: AtomicType, arrow: pa.DataType) -> pa.Array:
    match type_.root:
        case "DATE" | "TIME":
            return pa.array(values, pa.int32()).view(arrow)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return pa.array(values, pa.int64()).view(counted(type_)).cast(arrow)
        case "DECIMAL":
            return _decimals(values, arrow)
    return pa.array(values, arrow)


def _decimals(values: Sequence[bytes | None], arrow: pa.DataType) -> pa.Array:
    held = pa.array([value is not None for value in values], pa.bool_())
    numbers = (int.from_bytes(value or b"", "big", signed=True) for value in values)
    words = b"".join(number.to_bytes(_DECIMAL_BYTES, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(arrow, len(values), [held.buffers()[1], pa.py_buffer(words)])


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return list(value.items())
    return [(pair["key"], pair["value"]) for pair in value]


def _nested(values: Sequence[Any], arrow: pa.DataType, child: pa.Array) -> pa.Array:
    lengths = [0 if value is None else len(value) for value in values]
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    held = pa.array([value is not None for value in values], pa.bool_())
    return pa.Array.from_buffers(
        arrow, len(values), [held.buffers()[1], pa.py_buffer(offsets)], -1, 0, children=[child]
    )


if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

_CODECS = {"none": "null", "zstd": "zstandard"}
# Encoding needs several times the memory of its rows, so that rows are encoded in slices.
_SLICE_ROWS = 8_192
_SLICE_BYTES = 8 << 20
# Blocks that are decoded together. More of them cost less, and take some eight times their size while they are decoded.
_WINDOW_BYTES, _WINDOW_VALUES = 8 << 20, 2 << 20
# What damaged bytes raise. OSError is not among them: it comes from the store and may be temporary.
_FAULTS = (
    ArithmeticError,
    AssertionError,
    EOFError,
    LookupError,
    SchemaParseException,
    TypeError,
    ValueError,
    ZstdError,
    cramjam.DecompressionError,
    lzma.LZMAError,
    struct.error,
    zlib.error,
)


@dataclass(frozen=True, slots=True)
class _Block:
    """The attributes that fastavro's writer reads of a block."""

    num_records: int
    bytes_: io.BytesIO


class AvroWriter:
    """The writer of one Avro file. Every `write` ends a block."""

    def __init__(self, stream: Any, fields: Sequence[Field], encoding: Encoding, sample: pa.Table) -> None:
        self._fields = tuple(fields)
        schema = record_schema(self._fields)
        # A sync marker may be any 16 bytes unlikely to occur in the data. A hash of the schema keeps files of equal
        # rows equal.
        marker = hashlib.md5(json.dumps(schema).encode(), usedforsecurity=False).digest()
        codec = _CODECS.get(encoding.codec, encoding.codec)
        level = encoding.zstd_level if encoding.codec == "zstd" else None
        self._writer = Writer(stream, schema, codec=codec, sync_marker=marker, compression_level=level)

    def write(self, rows: pa.Table) -> None:
        """Append rows as blocks of about BLOCK_BYTES."""
        public = stored_rows(rows, self._fields, arrow_schema(self._fields))
        fit = _SLICE_BYTES * public.num_rows // max(public.nbytes, 1)
        for batch in public.to_batches(max(1, min(_SLICE_ROWS, fit))):
            for count, data in encoded_blocks(batch.columns, self._fields):
                self._writer.write_block(_Block(count, io.BytesIO(data)))

    def close(self) -> None:
        """Write buffered bytes to the stream, which stays open."""
        self._writer.flush()


def read(
    source: Any, fields: Sequence[Field], *, batch_rows: int, conditions: Sequence[ColumnCondition] = ()
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches as `parquet.read` does, but without skipping: every block must be decompressed whole.

    Holds in memory the blocks that are decoded together, and their rows.
    """
    first_row = 0
    for batch in _batches(_windows(source, fields), batch_rows):
        yield first_row, batch
        first_row += batch.num_rows


def _windows(source: Any, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the blocks that are decoded together."""
    try:
        blocks = AvroBlocks(io.BufferedReader(source))
        plain = without_logical_types(fastavro.parse_schema(json.loads(blocks.schema)))
        for window in _windowed(blocks, len(plain["fields"])):
            yield _decoded(window, plain, fields)
    except _FAULTS as reason:
        raise TableCorrupt(f"an Avro file cannot be read: {reason!r}") from reason


def _windowed(blocks: Iterable[Block], columns: int) -> Iterator[list[Block]]:
    held: list[Block] = []
    size = values = 0
    for count, data in blocks:
        if not count:
            continue
        held.append((count, data))
        size, values = size + len(data), values + count * columns
        if size >= _WINDOW_BYTES or values >= _WINDOW_VALUES:
            yield held
            held, size, values = [], 0, 0
    if held:
        yield held


def _decoded(blocks: Sequence[Block], plain: dict[str, Any], fields: Sequence[Field]) -> pa.RecordBatch:
    """Return the rows of some blocks, by columns if their records have no arrays and maps."""
    if can_decode(plain, blocks):
        return _batch(decoded(blocks, plain, fields), sum(count for count, _ in blocks), fields)
    array = fastavro.parse_schema({"type": "array", "items": plain})
    batches = []
    for count, data in blocks:
        # A block is encoded as an array without the leading count and the end mark, which are added here.
        records = fastavro.schemaless_reader(io.BytesIO(_varint(count) + data + b"\0"), array, None)
        batches.append(_batch(_columns(records, fields), count, fields))
    return pa.concat_batches(batches)


def _varint(count: int) -> bytes:
    out, value = bytearray(), count << 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _batches(windows: Iterable[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all windows in batches of at most `batch_rows`."""
    for rows in windows:
        for first in range(0, rows.num_rows, batch_rows):
            yield rows.slice(first, batch_rows)


def _columns(records: Sequence[dict[str, Any]], fields: Sequence[Field]) -> list[pa.Array]:
    return [
        from_avro([record[field.name] for record in records], field.type)
        if field.name in records[0]
        else pa.nulls(len(records), to_arrow(field.type))
        for field in fields
    ]


def _batch(columns: list[pa.Array], count: int, fields: Sequence[Field]) -> pa.RecordBatch:
    if not columns:
        # Only a batch that once had a column keeps its number of rows without columns.
        return pa.record_batch([pa.nulls(count)], names=[""]).select([])
    return pa.RecordBatch.from_arrays(columns, [field.name for field in fields])
