"""Index files of deletion vectors, which record the deleted rows of data files.

In memory a deletion vector is the sorted row numbers of a file's deleted rows, as int64.
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from penstock.errors import TableCorrupt
from penstock.table.meta.entries import VectorRange

Vector = npt.NDArray[np.int64]

_VERSION = b"\x01"
_SIZE = struct.Struct(">i")
_FRAME = 8  # size and checksum: the parts of a blob that its size field does not count
_MAGIC = struct.pack(">i", 1581511376)
_MAGIC64 = struct.pack("<i", 1681511377)
_GREATEST = 2**32 - 1


def encode_vectors(vectors: Mapping[str, npt.NDArray[Any]], *, bitmap64: bool) -> tuple[bytes, tuple[VectorRange, ...]]:
    """Return the bytes of an index file, and the range of each data file's vector in it.

    Files keep the order of `vectors`.
    """
    parts, ranges, offset = [_VERSION], [], len(_VERSION)
    for data_file, positions in vectors.items():
        body = _bitmap64(positions) if bitmap64 else _bitmap(positions)
        blob = _SIZE.pack(len(body)) + body + struct.pack(">I", zlib.crc32(body))
        # Java records the length of 64-bit vectors with the size and the checksum, of 32-bit vectors without them.
        length = len(blob) if bitmap64 else len(body)
        # A position may occur twice in the input, but a bitmap contains it once.
        ranges.append(VectorRange(data_file, offset, length, len(np.unique(positions))))
        parts.append(blob)
        offset += len(blob)
    return b"".join(parts), tuple(ranges)


def _bitmap(positions: npt.NDArray[Any]) -> bytes:
    if len(positions) and int(positions.max()) > _GREATEST:
        raise ValueError("a data file of more than 2^32 rows needs deletion-vectors.bitmap64")
    # A BitMap is built from array.array several times faster than from numpy.
    return _MAGIC + bytes(BitMap(array.array("I", positions.astype(np.uint32).tobytes())).serialize())


def _bitmap64(positions: npt.NDArray[Any]) -> bytes:
    return _MAGIC64 + bytes(BitMap64(array.array("Q", positions.astype(np.uint64).tobytes())).serialize())


def decode_vectors(data: bytes, ranges: Sequence[VectorRange], file: str) -> dict[str, Vector]:
    """Return the vectors of an index file by data file. `file` is the path of the bytes, for errors."""
    if data[:1] != _VERSION:
        raise TableCorrupt("not an index file of deletion vectors of version 1", file=file)
    return {range_.data_file: _vector(data, range_, file) for range_ in ranges}


def _vector(data: bytes, place: VectorRange, file: str) -> Vector:
    def corrupt(message: str) -> TableCorrupt:
        return TableCorrupt(message, file=file, offset=place.offset, data_file=place.data_file)

    start = place.offset + _SIZE.size
    if place.offset < 1 or len(data) < start + 2 * _SIZE.size:
        raise corrupt("a deletion vector is outside of its file")
    (size,) = _SIZE.unpack_from(data, place.offset)
    body = data[start : start + size]
    magic = body[: len(_MAGIC)]
    # The magic number shows the kind of a vector. The table's option may have changed since the file was written.
    expected = size if magic == _MAGIC else size + _FRAME
    if magic not in (_MAGIC, _MAGIC64) or expected != place.length or len(data) < start + size + _SIZE.size:
        raise corrupt("a deletion vector differs in length or kind from its entry")
    if data[start + size : start + size + 4] != struct.pack(">I", zlib.crc32(body)):
        raise corrupt("a deletion vector does not match its checksum")
    try:
        bitmap = (BitMap if magic == _MAGIC else BitMap64).deserialize(body[len(magic) :])
    except ValueError as reason:
        raise corrupt("a deletion vector is not a valid bitmap") from reason
    found = bitmap.to_array()
    return np.frombuffer(found, np.dtype(f"u{found.itemsize}")).astype(np.int64)
