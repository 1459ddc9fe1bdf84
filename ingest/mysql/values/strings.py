"""Character data, bytes and types based on them: each distinct value is decoded once."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.formats.geometry import geojson
from penstock.ingest.database.cells import is_ascii
from penstock.ingest.mysql.values.json_text import json_text
from penstock.ingest.mysql.values.rules import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.ingest.mysql.server.charsets import Charset
    from penstock.ingest.mysql.values.rules import CellContext


_LARGEST = 1 << 30  # bytes of a value, the largest possible max_allowed_packet


def decoded(raw: pa.Array, charset: Charset, cells: CellContext) -> pa.Array:
    """Return strings from bytes in the column's character set."""
    if not charset.is_utf8:
        return by_distinct(raw, charset.decode, pa.string())
    if is_ascii(raw):
        return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), raw.null_count)
    try:
        # The cast checks that the bytes are UTF-8 and shares the buffers.
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        cells.oddities[UNREADABLE] += 1
        return by_distinct(raw, lambda text: text.decode("utf-8", "replace"), pa.string())


def uncompressed(raw: pa.Array, cells: CellContext) -> pa.Array:
    """Return the content of cells of MariaDB's COMPRESSED columns, which the binlog contains as stored.

    It costs a Python object per cell, because zlib decompresses one cell at a time.
    """

    def content(cell: bytes) -> bytes | None:
        try:
            return _uncompressed(cell)
        except zlib.error:
            cells.oddities[UNREADABLE] += 1
            return None

    return by_distinct(raw, content, pa.binary())


def _uncompressed(cell: bytes) -> bytes:
    """Return the content of a compressed cell.

    Its first byte contains the method (high half), whether the zlib header is missing (8), and the size of the plain
    length (low bits). The plain length and the content follow.
    """
    if not cell or cell[0] >> 4 == 0:
        return cell[1:]
    length_bytes = cell[0] & 7
    length = int.from_bytes(cell[1 : 1 + length_bytes], "big")
    stream = zlib.decompressobj(-zlib.MAX_WBITS if cell[0] & 8 else zlib.MAX_WBITS)
    content = stream.decompress(cell[1 + length_bytes :], min(length, _LARGEST) + 1)
    if len(content) != length or not stream.eof:
        raise zlib.error("the content does not have its declared length")
    return content


def by_distinct(raw: pa.Array, convert: Callable[[bytes], object], kind: pa.DataType) -> pa.Array:
    """Return `convert` of every distinct value; nulls stay null."""
    encoded = raw.dictionary_encode()
    values = pa.array([convert(value) for value in encoded.dictionary.to_pylist()], kind)
    return values.take(encoded.indices)


def geometries(raw: pa.Array, cells: CellContext) -> pa.Array:
    """Return GeoJSON text from the server's format: the SRID in four bytes, then WKB."""

    def text(value: bytes) -> str | None:
        try:
            # The SRID precedes the WKB in four bytes.
            return geojson(value[4:], int.from_bytes(value[:4], "little"))
        except ValueError:
            cells.oddities[UNREADABLE] += 1
            return None

    return by_distinct(raw, text, pa.string())


def vectors(raw: pa.Array) -> pa.Array:
    """Return VECTOR values as lists of numbers, which are stored in four bytes each."""

    def numbers(value: bytes) -> list[float]:
        return list(struct.unpack(f"<{len(value) // 4}f", value[: len(value) // 4 * 4]))

    return by_distinct(raw, numbers, pa.list_(pa.float32()))


def jsons(raw: pa.Array, cells: CellContext) -> pa.Array:
    """Return the server's text of its binary JSON.

    It costs a Python object per document, because a tree cannot be decoded by columns.
    """

    def text(value: bytes) -> str | None:
        try:
            return json_text(value)
        except ValueError:
            cells.oddities[UNREADABLE] += 1
            return None

    return by_distinct(raw, text, pa.string())
