"""What a task may hold of rows that are not in files yet: one budget for all its tables, partitions and buckets."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import Protocol

from penstock.table.schema.options import Options

# Files of append tables that may stay open for more rows; each holds a row group of its own.
_OPEN_STREAMS = 2


class Holder(Protocol):
    """A bucket's rows in memory."""

    @property
    def held_bytes(self) -> int: ...

    def release(self) -> None:
        """Put them on disk, whether the table's or this machine's."""


class WriteBudget:
    """When `most` bytes are spent, the largest holders go first, until a quarter is free.

    Give one budget to the writers of several tables, and they share it. `disk` is what may lie spilled on this machine.
    """

    def __init__(self, most: int = 256 << 20, disk: int | None = None) -> None:
        self.most, self._disk = most, disk
        self._holders: dict[int, Holder] = {}
        self._held = self._spilled = self._streams = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def of(cls, options: Options) -> WriteBudget:
        return cls(options.size("write-buffer-size", 256 << 20), options.size("write-buffer-spill.max-disk-size", None))

    def resize(self, options: Options) -> None:
        """What the options of another table say, where one task writes table after table."""
        sized = WriteBudget.of(options)
        self.most, self._disk = sized.most, sized._disk

    def grew(self, holder: Holder, by: int) -> None:
        self._holders[id(holder)] = holder
        self._held += by
        if self._held > self.most:
            self._make_room()

    def shrank(self, holder: Holder, by: int) -> None:
        """Its rows are in a file, or given up."""
        self._held -= by
        if holder.held_bytes == 0:
            self._holders.pop(id(holder), None)

    def _make_room(self) -> None:
        for holder in sorted(self._holders.values(), key=lambda one: one.held_bytes, reverse=True):
            if self._held <= self.most // 4 * 3:
                return
            holder.release()

    # disk

    def may_spill(self, size: int) -> bool:
        return self._disk is None or self._spilled + size <= self._disk

    def new_spill(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="penstock-spill-")
        return Path(self._folder.name) / f"{uuid.uuid4().hex}.arrow"

    def spilled(self, size: int) -> None:
        """So many bytes came to the disk, or left it. The folder goes with the last of them."""
        self._spilled += size
        if self._spilled <= 0 and self._folder is not None:
            self._folder.cleanup()
            self._folder, self._spilled = None, 0

    # open files

    def may_stream(self) -> bool:
        """Whether one more file may stay open; if so it counts until `stream_closed`."""
        if self._streams >= _OPEN_STREAMS:
            return False
        self._streams += 1
        return True

    def stream_closed(self) -> None:
        self._streams -= 1
