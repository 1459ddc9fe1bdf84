"""An encoder of manifests and manifest lists in Avro, into the bytes that fastavro makes of their records.

Only blocks of Zstandard differ: they have a checksum, which Java and other readers compare when they decompress it.

fastavro tries the branches of a union for each value, and builds the header for each file. That takes most of the time
in which a small commit writes its manifests. The functions of this module know manifest_format.ENTRY_SCHEMA and
LIST_SCHEMA alone.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import fastavro

from penstock.table.meta.container import sync_marker
from penstock.table.meta.data_file import ColumnStats, DataFile
from penstock.table.meta.entries import ManifestEntry, ManifestFile
from penstock.table.meta.manifest_decoder import MANIFEST_VERSION

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter, compress
else:
    from backports.zstd import CompressionParameter, compress

T = TypeVar("T")
# Where fastavro ends a block.
_BLOCK_BYTES = 16_000
_WITH_CHECKSUM = {CompressionParameter.checksum_flag: 1}
# The codecs of `write_encoded`.
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "zstandard": lambda block: compress(block, options=_WITH_CHECKSUM),
    "null": bytes,
}
# By the identity of the schemas, which are constants. A schema is kept with its header, so that no other gets its id.
_HEADERS: dict[tuple[int, str], tuple[Mapping[str, Any], bytes]] = {}
_NULL, _VALUE, _END = b"\0", b"\2", b"\0"
_SHORT = tuple(bytes([number]) for number in range(128))


def write_encoded(schema: Mapping[str, Any], records: Iterable[bytes], codec: str, seed: str) -> bytes:
    """Return the container that `container.write_records` returns, of encoded records; the codec is one of PACKED."""
    marker = sync_marker(seed)
    out, block, count = [_header(schema, codec), marker], bytearray(), 0
    for record in records:
        block += record
        count += 1
        if len(block) >= _BLOCK_BYTES:
            out += _block(block, count, codec, marker)
            block, count = bytearray(), 0
    if count:
        out += _block(block, count, codec, marker)
    return b"".join(out)


def _block(records: bytes | bytearray, count: int, codec: str, marker: bytes) -> tuple[bytes, ...]:
    packed = PACKED[codec](bytes(records))
    return _long(count), _long(len(packed)), packed, marker


def _header(schema: Mapping[str, Any], codec: str) -> bytes:
    """Return the header of a container, without the sync marker at its end."""
    known = _HEADERS.get((id(schema), codec))
    if known is None:
        out, marker = io.BytesIO(), bytes(16)
        fastavro.writer(out, schema, (), codec=codec, sync_marker=marker)
        known = _HEADERS[id(schema), codec] = schema, out.getvalue().removesuffix(marker)
    return known[1]


def encode_record(schema: Mapping[str, Any], record: Mapping[str, Any]) -> bytes:
    """Return a record of any schema."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def encode_entry(entry: ManifestEntry) -> bytes:
    """Return the record of an entry of a manifest."""
    file = entry.file
    return b"".join(
        (
            _long(MANIFEST_VERSION),
            _long(int(entry.kind)),
            _bytes(entry.partition),
            _long(entry.bucket),
            _long(entry.total_buckets),
            *_of_file(file),
            _nullable(file.creation_millis, _long),
            _nullable(file.delete_row_count, _long),
            _nullable(file.embedded_index, _bytes),
            _nullable(None if file.source is None else int(file.source), _long),
            _nullable(file.value_stats_cols, _texts),
            _nullable(file.external_path, _text),
            _nullable(file.first_row_id, _long),
            _nullable(file.write_cols, _texts),
        )
    )


def _of_file(file: DataFile) -> tuple[bytes, ...]:
    """Return the fields of a data file that are never null."""
    return (
        _text(file.name),
        _long(file.size),
        _long(file.row_count),
        _bytes(file.min_key),
        _bytes(file.max_key),
        _stats(file.key_stats),
        _stats(file.value_stats),
        _long(file.min_sequence),
        _long(file.max_sequence),
        _long(file.schema_id),
        _long(file.level),
        _texts(file.extra_files),
    )


def encode_line(file: ManifestFile) -> bytes:
    """Return the record of a manifest in a manifest list."""
    return b"".join(
        (
            _long(MANIFEST_VERSION),
            _text(file.name),
            _long(file.size),
            _long(file.added_files),
            _long(file.deleted_files),
            _stats(file.partition_stats),
            _long(file.schema_id),
            _nullable(file.min_bucket, _long),
            _nullable(file.max_bucket, _long),
            _nullable(file.min_level, _long),
            _nullable(file.max_level, _long),
        )
    )


def _stats(stats: ColumnStats) -> bytes:
    counts = b"".join([_nullable(count, _long) for count in stats.null_counts])
    return _bytes(stats.min_values) + _bytes(stats.max_values) + _VALUE + _array(len(stats.null_counts), counts)


def _long(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    if left < 128:
        return _SHORT[left]
    out = bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)
    return bytes(out)


def _bytes(data: bytes) -> bytes:
    return _long(len(data)) + data


def _text(text: str) -> bytes:
    return _bytes(text.encode())


def _texts(texts: Sequence[str]) -> bytes:
    return _array(len(texts), b"".join(map(_text, texts)))


def _array(count: int, items: bytes) -> bytes:
    return _long(count) + items + _END if count else _END


def _nullable(value: T | None, encode: Callable[[T], bytes]) -> bytes:
    return _NULL if value is None else _VALUE + encode(value)
