"""Manifests in ORC or Parquet, for tables that set `manifest.format`: Java reads only a single format per table."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

_TYPES = {"int": pa.int32(), "long": pa.int64(), "bytes": pa.binary(), "string": pa.string()}
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
