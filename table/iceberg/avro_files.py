"""The Avro containers of Iceberg: their records as dicts, in which a logical type is the value that encodes it."""

from __future__ import annotations

import functools
import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

import fastavro

from penstock.errors import ConfigError, TableCorrupt
from penstock.table.meta.avro_blocks import AvroBlocks
from penstock.table.meta.container import CODECS, UNREADABLE
from penstock.table.options.iceberg import ICEBERG_MANIFEST_COMPRESSION
from penstock.table.options.table_options import TableOptions

_CODECS = {**CODECS, "gzip": "deflate", "uncompressed": "null"}


def avro_codec(options: TableOptions) -> str:
    """Return Avro's name of the codec that the options choose for Iceberg's manifests."""
    name = options[ICEBERG_MANIFEST_COMPRESSION].strip().lower()
    if name not in _CODECS:
        known = ", ".join(_CODECS)
        raise ConfigError(
            f"{name!r} is not a codec for manifests",
            option=ICEBERG_MANIFEST_COMPRESSION.key,
            hint=f"use one of {known}",
        )
    return _CODECS[name]


def encode_avro(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], codec: str, header: Mapping[str, str], name: str
) -> bytes:
    """Return a container of the records; `header` is its metadata, and its marker is made from its file name."""
    out = io.BytesIO()
    sync = hashlib.blake2b(name.encode(), digest_size=16).digest()
    fastavro.writer(out, schema, records, codec=codec, sync_marker=sync, metadata=dict(header))
    return out.getvalue()


def decode_avro(data: bytes, where: str) -> list[dict[str, Any]]:
    """Return the records of a container, which was read from the file `where`."""
    try:
        blocks = AvroBlocks(data)
        schema = _plain(blocks.schema)
        found: list[dict[str, Any]] = []
        for count, block in blocks:
            source = io.BytesIO(block)
            for _ in range(count):
                record: Any = fastavro.schemaless_reader(source, schema, None)
                found.append(record)
        return found
    except UNREADABLE as reason:
        raise TableCorrupt(
            f"the file is incomplete: {reason!r:.200}",
            file=where,
            bytes=len(data),
            hint="penstock publish-iceberg  makes the metadata again from the table",
        ) from reason


@functools.lru_cache(maxsize=64)
def _plain(schema: str) -> Any:
    return fastavro.parse_schema(_without_logical(json.loads(schema)))


def _without_logical(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_logical(item) for item in node]
    if isinstance(node, dict):
        return {key: _without_logical(value) for key, value in node.items() if key != "logicalType"}
    return node
