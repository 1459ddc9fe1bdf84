"""A read-only file assembled from parts of another file."""

from __future__ import annotations

import io
from bisect import bisect_right
from typing import Any


class SplicedFile(io.RawIOBase):
    """A file of parts of `source` with bytes between them.

    Parts are read on demand; only the added bytes are in memory.
    """

    def __init__(self, source: Any) -> None:
        super().__init__()
        self._source = source
        self._starts: list[int] = []
        self._parts: list[int | bytes] = []  # an offset in the source, or the bytes themselves
        self.size = 0
        self._place = 0

    def add(self, offset: int, length: int) -> None:
        """Append a part of the source."""
        self._append(offset, length)

    def add_bytes(self, data: bytes) -> None:
        """Append bytes."""
        self._append(data, len(data))

    def _append(self, part: int | bytes, length: int) -> None:
        if length:
            self._starts.append(self.size)
            self._parts.append(part)
            self.size += length

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + (0, self._place, self.size)[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self._place + size)
        found = []
        while self._place < end:
            number = bisect_right(self._starts, self._place) - 1
            start, part = self._starts[number], self._parts[number]
            stop = min(end, self._starts[number + 1] if number + 1 < len(self._starts) else self.size)
            skip, length = self._place - start, stop - self._place
            found.append(
                part[skip : skip + length] if isinstance(part, bytes) else self._source.read_at(length, part + skip)
            )
            self._place = stop
        return b"".join(found)
