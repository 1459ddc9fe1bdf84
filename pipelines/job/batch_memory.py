"""The memory that large batches leave with a process whose next batches are small."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.formats.freed_memory import return_freed_memory

LARGE_BYTES = 64 << 20
# A batch that uses at most this part of the memory of a larger batch before it does not need the rest.
SMALL_PART = 8


@dataclass(slots=True)
class BatchMemory:
    """Returns memory to the system when a run needs much less of it than before.

    A pipeline begins with a backlog and then runs for months with small batches. Between large batches the memory
    stays: to get half a gigabyte back from the system takes a tenth of a second.
    """

    most: int = 0

    def used(self, size: int) -> None:
        """Note the bytes of the rows of a batch, which are free again."""
        if size >= self.most:
            self.most = size
        elif self.most > LARGE_BYTES and size < self.most // SMALL_PART:
            return_freed_memory()
            self.most = size
