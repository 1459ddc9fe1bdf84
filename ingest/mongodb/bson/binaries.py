"""Bytes as text: identifiers in hexadecimal digits, binaries in base64."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import Bytes, Int64s, of_offsets
from penstock.ingest.database.buffers import gathered
from penstock.ingest.mongodb.bson.elements import Block, check_places
from penstock.ingest.mongodb.bson.text_columns import in_places, joined

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
# Binaries up to this length are encoded as matrices of one length.
_SHORT_BINARY = 64


def object_ids(data: Bytes, start: Int64s) -> pa.Array:
    """Return identifiers as 24 hexadecimal digits."""
    digits = _HEX[gathered(data, start, 12)].reshape(-1)
    return of_offsets(pa.string(), digits, np.arange(len(start) + 1, dtype=np.int64) * 24, np.zeros(len(start), bool))


def binaries(block: Block, start: Int64s, length: Int64s) -> pa.Array:
    """Return binaries as JSON, with their subtype."""
    data = block.data
    subtype = _HEX[data[start + 4]].reshape(-1)
    offsets = np.arange(len(start) + 1, dtype=np.int64) * 2
    kinds = of_offsets(pa.string(), subtype, offsets, np.zeros(len(start), bool))
    begin, size = start + 5, length - 5
    # Binaries of the old subtype repeat their length before their content.
    old = data[start + 4] == 2
    begin, size = begin + 4 * old, size - 4 * old
    check_places(size >= 0, start)
    pieces, places = [], []
    for count in np.unique(size[size <= _SHORT_BINARY]).tolist():
        chosen = np.flatnonzero(size == count)
        pieces.append(_base64(gathered(data, begin[chosen], count), count))
        places.append(chosen)
    others = np.flatnonzero(size > _SHORT_BINARY)
    if len(others):
        cells = zip(begin[others].tolist(), size[others].tolist(), strict=True)
        pieces.append(pa.array([b64encode(block.raw[at : at + many]).decode() for at, many in cells], pa.string()))
        places.append(others)
    return joined('{"$binary":"', in_places(pieces, places, len(start)), '","$type":"', kinds, '"}')


def _base64(matrix: Bytes, width: int) -> pa.Array:
    """Return the lines of the matrix in base64."""
    count, triples = len(matrix), -(-width // 3)
    padded = np.zeros((count, triples * 3), np.uint32)
    padded[:, :width] = matrix
    number = padded[:, 0::3] << 16 | padded[:, 1::3] << 8 | padded[:, 2::3]
    characters = np.empty((count, triples, 4), np.uint8)
    for place in range(4):
        characters[:, :, place] = _BASE64[number >> (18 - 6 * place) & 63]
    lines = characters.reshape(count, triples * 4)
    missing = triples * 3 - width
    if missing:
        lines[:, -missing:] = ord("=")
    offsets = np.arange(count + 1, dtype=np.int64) * (triples * 4)
    return of_offsets(pa.string(), lines.reshape(-1), offsets, np.zeros(count, bool))
