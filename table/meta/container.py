"""The files of manifest/: Avro containers as Java writes them, or ORC or Parquet where `manifest.format` is set.

Java reads only a single format per table.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import lzma
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import cramjam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from fastavro.schema import SchemaParseException
from pyarrow import orc

from penstock.errors import ConfigError, TableCorrupt
from penstock.table.meta.avro_blocks import AvroBlocks
from penstock.table.options.commits import MANIFEST_COMPRESSION, MANIFEST_FORMAT
from penstock.table.options.table_options import TableOptions
from penstock.table.orc_metadata.tail import OrcTail

_TYPES = {"int": pa.int32(), "long": pa.int64(), "bytes": pa.binary(), "string": pa.string()}
# TINYINT in Java. Avro has no type of one byte and uses int, but ORC and Parquet have one.
_BYTE_WIDE = {"_KIND", "_FILE_SOURCE"}
_CODECS = {
    "orc": {"zstandard": "zstd", "deflate": "zlib", "snappy": "snappy", "null": "uncompressed"},
    "parquet": {"zstandard": "zstd", "deflate": "gzip", "snappy": "snappy", "null": "none"},
}


def write_columns(schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], format_: str, codec: str) -> bytes:
    """Return the records of an Avro schema as an ORC or Parquet file. The same records produce the same bytes."""
    struct = _type(schema)
    rows = pa.Table.from_pylist(list(records), pa.schema(list(struct)))
    out = io.BytesIO()
    if format_ == "orc":
        orc.write_table(rows, out, compression=_CODECS["orc"][codec])
    else:
        pq.write_table(rows, out, compression=_CODECS["parquet"][codec])
    return out.getvalue()


def _type(node: Any) -> pa.DataType:
    match node:
        case {"type": "record", "fields": fields}:
            return pa.struct([_field(field) for field in fields])
        case {"type": "array", "items": items}:
            return pa.list_(_type(items))
        case {"type": "long", "logicalType": "timestamp-millis"}:
            return pa.timestamp("ms")
        case ["null", branch]:
            return _type(branch)
        case {"type": inner}:
            return _type(inner)
    return _TYPES[node]


def _field(field: Mapping[str, Any]) -> pa.Field:
    type_ = pa.int8() if field["name"] in _BYTE_WIDE else _type(field["type"])
    return pa.field(field["name"], type_, nullable=isinstance(field["type"], list))


if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError


class RequiredField:
    """The marker of a field that has no default."""


REQUIRED = RequiredField()


@dataclass(frozen=True, slots=True)
class RecordShape:
    """The conversion of a record to an object: `make` is called with the values of `fields`, in this order.

    The values in `fields` are the defaults of fields that are null or that the writer did not know. `members` are the
    shapes of nested records, by the name of their field. `decode` decodes all records of a block at once if their
    layout equals `layout`.
    """

    make: Callable[..., object]
    fields: Mapping[str, object]
    members: Mapping[str, RecordShape] = field(default_factory=dict)
    decode: Callable[[bytes, int], list[Any]] | None = None
    layout: object = None


CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "deflate": "deflate",
    "snappy": "snappy",
    "null": "null",
    "none": "null",
}
UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    SchemaParseException,
    TypeError,
    ValueError,
    ZstdError,
    lzma.LZMAError,
    pa.ArrowException,
    struct.error,
    zlib.error,
    cramjam.DecompressionError,
)


def manifest_codec(options: TableOptions) -> str:
    """Return the codec for manifests: an Avro codec, with the prefix `orc:` or `parquet:` for those formats."""
    format_, name = options[MANIFEST_FORMAT], options[MANIFEST_COMPRESSION].strip().lower()
    if name not in CODECS:
        known = ", ".join(CODECS)
        raise ConfigError(
            f"{name!r} is not a codec for manifests",
            option=MANIFEST_COMPRESSION.key,
            hint=f"use one of {known}",
        )
    return CODECS[name] if format_ == "avro" else f"{format_}:{CODECS[name]}"


def write_records(schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], codec: str, seed: str) -> bytes:
    """Return a container of the records. The same records, codec and seed produce the same bytes."""
    format_, _, codec = codec.rpartition(":")
    if format_:
        return write_columns(schema, records, format_, codec)
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec, sync_marker=sync_marker(seed))
    return out.getvalue()


def sync_marker(seed: str) -> bytes:
    # Other writers choose the marker at random; here the content decides, so that tables can be reproduced.
    return hashlib.blake2b(seed.encode(), digest_size=16).digest()


def read_records(data: bytes, shape: RecordShape, where: str, facts: Mapping[str, object]) -> list[Any]:
    """Return every record of the file `where`, converted by the shape. `facts` are added to a TableCorrupt."""
    try:
        # The first bytes decide rather than manifest.format, which may have changed since the file was written.
        if data.startswith(b"Obj\x01"):
            return _avro_records(data, shape)
        if data.startswith(b"ORC"):
            OrcTail(pa.BufferReader(data))  # liborc aborts the process on a footer that it does not expect
            return [_made(row, shape) for row in orc.read_table(pa.BufferReader(data)).to_pylist()]
        if data.startswith(b"PAR1"):
            # `read_table` scans it as a data set, which takes four times as long for a small file.
            rows = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
            return [_made(row, shape) for row in rows.to_pylist()]
    except TableCorrupt as reason:
        raise _corrupt(reason.message, data, where, facts) from reason
    except UNREADABLE as reason:
        raise _corrupt(f"the file is incomplete: {reason!r:.200}", data, where, facts) from reason
    raise _corrupt("the file is neither Avro, ORC nor Parquet", data, where, facts)


def _corrupt(message: str, data: bytes, where: str, facts: Mapping[str, object]) -> TableCorrupt:
    return TableCorrupt(message, hint=None, **{"file": where, "bytes": len(data), **facts})


def _avro_records(data: bytes, shape: RecordShape) -> list[Any]:
    blocks = AvroBlocks(data)
    # The fast decoder knows one layout. Manifests of other releases have fewer or more fields and are read by
    # fastavro.
    known = shape.decode is not None and _layout_of(blocks.schema) == shape.layout
    array = None if known else _array_of(blocks.schema)
    found: list[Any] = []
    for count, block in blocks:
        if shape.decode is not None and array is None:
            found += shape.decode(block, count)
        elif count:
            # A block is encoded as an array without the leading count and the end mark, which are added here, so that
            # one call decodes all of its records.
            records: Any = fastavro.schemaless_reader(io.BytesIO(_zigzag(count) + block + b"\0"), array, None)
            found += [_made(record, shape) for record in records]
    return found


@functools.lru_cache(maxsize=64)
def _array_of(schema: str) -> Any:
    return fastavro.parse_schema({"type": "array", "items": json.loads(schema)})


def _zigzag(count: int) -> bytes:
    out, left = bytearray(), count << 1
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes(out) + bytes([left])


@functools.lru_cache(maxsize=64)
def _layout_of(schema: str) -> object:
    return layout(json.loads(schema))


def layout(schema: Any) -> object:
    """Return what determines the encoding of an Avro schema: names and types of fields.

    Names of records, defaults and other attributes do not affect the encoding and are left out.
    """
    match schema:
        case list():
            return [layout(branch) for branch in schema]
        case {"type": "record", "fields": fields}:
            return [(column["name"], layout(column["type"])) for column in fields]
        case {"type": "array", "items": items}:
            return ("array", layout(items))
        case {"type": str(inner)}:
            return inner
    return schema


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _made(row: Mapping[str, Any], shape: RecordShape) -> object:
    missing = [name for name, default in shape.fields.items() if default is REQUIRED and row.get(name) is None]
    if missing:
        raise ValueError(f"the records have no {', '.join(missing)}")
    values = ((row.get(name), default, shape.members.get(name)) for name, default in shape.fields.items())
    return shape.make(*(default if value is None else _plain(value, member) for value, default, member in values))


def _plain(value: Any, shape: RecordShape | None) -> object:
    if isinstance(value, list):
        return tuple(None if item is None else _plain(item, shape) for item in value)
    if isinstance(value, dict) and shape is not None:
        return _made(value, shape)
    if isinstance(value, datetime):
        # Readers of the formats return creation times with or without UTC; both are wall clocks counted as if they
        # were UTC.
        return (value.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
    return value
