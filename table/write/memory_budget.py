"""The memory budget of a task for rows not yet in files, shared by all its tables, partitions and buckets."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import Protocol

from penstock.table.options.table_options import TableOptions
from penstock.table.options.writers import WRITE_BUFFER_SIZE, WRITE_BUFFER_SPILL_MAX_DISK_SIZE

# How many files of append tables may stay open for more rows; each buffers a row group.
_OPEN_STREAMS = 2


class Buffer(Protocol):
    """The rows of a bucket in memory."""

    @property
    def buffered_bytes(self) -> int: ...

    def release(self) -> None:
        """Write the rows to disk: to files of the table, or to local disk."""


class WriteBudget:
    """A budget of `most` bytes: once it is exceeded, the largest buffers are released until a quarter is free.

    Writers of several tables share one budget object. `disk` limits the bytes spilled to local disk.
    """

    def __init__(self, most: int = 256 << 20, disk: int | None = None) -> None:
        self.most, self._disk = most, disk
        self._buffers: dict[int, Buffer] = {}
        self._buffered = self._spilled = self._streams = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def of(cls, options: TableOptions) -> WriteBudget:
        """Return the budget that a table's options set."""
        return cls(options[WRITE_BUFFER_SIZE], options[WRITE_BUFFER_SPILL_MAX_DISK_SIZE])

    def resize(self, options: TableOptions) -> None:
        """Apply the options of another table, for a task that writes table after table."""
        sized = WriteBudget.of(options)
        self.most, self._disk = sized.most, sized._disk

    def grew(self, buffer: Buffer, by: int) -> None:
        """Record that a buffer has more rows, and release buffers if the budget is exceeded."""
        # By identity, since buffers change and therefore have no hash.
        self._buffers[id(buffer)] = buffer
        self._buffered += by
        if self._buffered > self.most:
            self._make_room()

    def shrank(self, buffer: Buffer, by: int) -> None:
        """Record that rows of a buffer were written to a file, or discarded."""
        self._buffered -= by
        if buffer.buffered_bytes == 0:
            self._buffers.pop(id(buffer), None)

    def _make_room(self) -> None:
        for buffer in sorted(self._buffers.values(), key=lambda buffer: buffer.buffered_bytes, reverse=True):
            # A quarter at once: otherwise every further batch would release one more small buffer.
            if self._buffered <= self.most // 4 * 3:
                return
            buffer.release()

    # Spilled files on local disk

    def may_spill(self, size: int) -> bool:
        """Return whether `size` more bytes may be spilled to local disk."""
        return self._disk is None or self._spilled + size <= self._disk

    def new_spill(self) -> Path:
        """Return the path of a new spill file."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="penstock-spill-")
        return Path(self._folder.name) / f"{uuid.uuid4().hex}.arrow"

    def spilled(self, size: int) -> None:
        """Record bytes written to local disk, or removed if negative. The folder is deleted with the last of them."""
        self._spilled += size
        if self._spilled <= 0 and self._folder is not None:
            self._folder.cleanup()
            self._folder, self._spilled = None, 0

    # Open files of append tables

    def may_stream(self) -> bool:
        """Return whether another file may stay open; if so, it counts until `stream_closed` is called."""
        if self._streams >= _OPEN_STREAMS:
            return False
        self._streams += 1
        return True

    def stream_closed(self) -> None:
        """Record that a file which could stay open was closed."""
        self._streams -= 1
