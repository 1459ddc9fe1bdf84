"""The hash index file of a dynamic bucket: the hash of every key that was ever assigned to the bucket."""

from __future__ import annotations

import numpy as np

from penstock.errors import TableCorrupt
from penstock.table.values.buffers import Hashes

_STORED = np.dtype(">i4")


def encode_hashes(hashes: Hashes) -> bytes:
    """Return the bytes of a hash index file. The order is irrelevant: Java writes the order of a hash set."""
    return hashes.astype(_STORED).tobytes()


def decode_hashes(data: bytes, row_count: int, file: str) -> Hashes:
    """Return the hashes in the file's order. `row_count` is from the index manifest, `file` is the path for errors."""
    if len(data) != row_count * _STORED.itemsize:
        raise TableCorrupt(f"a hash index of {len(data)} bytes cannot contain {row_count} hashes", file=file)
    return np.frombuffer(data, _STORED).astype(np.int32)
