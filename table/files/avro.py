"""Avro data files. Record by record, some fifteen times slower than Parquet: never a default."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import cramjam
import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException
from fastavro.write import Writer

from penstock.errors import TableCorrupt
from penstock.table.files.avro_columns import from_avro, to_avro
from penstock.table.files.avro_schema import record_schema, without_logical_types
from penstock.table.files.columns import stored_rows
from penstock.table.files.conditions import Condition
from penstock.table.files.encoding import Encoding
from penstock.table.values.arrow_types import arrow_schema, to_arrow
from penstock.table.values.types import Field

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

_CODECS = {"none": "null", "zstd": "zstandard"}
_SLICE_ROWS = 8_192
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


class AvroWriter:
    """One file. Every `write` ends a block."""

    def __init__(self, stream: Any, fields: Sequence[Field], encoding: Encoding, sample: pa.Table) -> None:
        self._fields = tuple(fields)
        schema = record_schema(self._fields)
        # Any 16 bytes that data does not happen to hold will do; these make the same file of the same rows.
        marker = hashlib.md5(json.dumps(schema).encode(), usedforsecurity=False).digest()
        codec = _CODECS.get(encoding.codec, encoding.codec)
        level = encoding.zstd_level if encoding.codec == "zstd" else None
        self._writer = Writer(stream, schema, codec=codec, sync_marker=marker, compression_level=level)

    def write(self, rows: pa.Table) -> None:
        public = stored_rows(rows, self._fields, arrow_schema(self._fields))
        for batch in public.to_batches(_SLICE_ROWS):
            columns = [to_avro(column, field.type) for column, field in zip(batch.columns, self._fields, strict=True)]
            for row in zip(*columns, strict=True):
                self._writer.write(dict(zip(public.column_names, row, strict=True)))
        self._writer.flush()

    def close(self) -> None:
        self._writer.flush()


def read(
    source: Any, fields: Sequence[Field], *, batch_rows: int, conditions: Sequence[Condition] = ()
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As `parquet.read`. Nothing can be passed over: every record is decoded whole. Holds a batch and one block."""
    first_row = 0
    for records in _batches(_blocks(source), batch_rows):
        yield first_row, _batch(records, fields)
        first_row += len(records)


def _blocks(source: Any) -> Iterator[list[dict[str, Any]]]:
    try:
        blocks = fastavro.block_reader(io.BufferedReader(source))
        plain = fastavro.parse_schema(without_logical_types(blocks.writer_schema))
        array = {"type": "array", "items": plain}
        for block in blocks:
            # A block is an array but for its count in front and the end mark behind.
            data = _varint(block.num_records) + block.bytes_.getvalue() + b"\0"
            yield fastavro.schemaless_reader(io.BytesIO(data), array, None)
    except _FAULTS as reason:
        raise TableCorrupt(f"an Avro file cannot be read: {reason!r}") from reason


def _varint(count: int) -> bytes:
    out, value = bytearray(), count << 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _batches(blocks: Iterator[list[dict[str, Any]]], batch_rows: int) -> Iterator[list[dict[str, Any]]]:
    held: list[dict[str, Any]] = []
    for block in blocks:
        held += block
        while len(held) >= batch_rows:
            yield held[:batch_rows]
            held = held[batch_rows:]
    if held:
        yield held


def _batch(records: list[dict[str, Any]], fields: Sequence[Field]) -> pa.RecordBatch:
    columns = []
    for field in fields:
        if field.name in records[0]:
            columns.append(from_avro([record[field.name] for record in records], field.type))
        else:
            columns.append(pa.nulls(len(records), to_arrow(field.type)))
    if not columns:
        return pa.record_batch([pa.nulls(len(records))], names=[""]).select([])
    return pa.RecordBatch.from_arrays(columns, [field.name for field in fields])
