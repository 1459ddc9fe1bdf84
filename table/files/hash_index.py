"""The index file of a dynamic bucket: the hash of every key ever put there (table-format 6.4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.errors import TableCorrupt

Hashes = npt.NDArray[np.int32]
_STORED = np.dtype(">i4")


def encode_hashes(hashes: Hashes) -> bytes:
    """A whole file. The order means nothing: Java's is that of a hash set."""
    return hashes.astype(_STORED).tobytes()


def decode_hashes(data: bytes, row_count: int, file: str) -> Hashes:
    """The hashes in the file's order. `row_count` is what the index manifest says, `file` the place for errors."""
    if len(data) != row_count * _STORED.itemsize:
        raise TableCorrupt(f"a hash index of {len(data)} bytes cannot hold {row_count} hashes", file=file)
    return np.frombuffer(data, _STORED).astype(np.int32)
