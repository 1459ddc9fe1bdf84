"""The file that a store's client writes, as Arrow wants to see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class Output:
    """Written front to back; what is written counts when it is closed.

    No io class, since those close themselves when they are forgotten: what a crash left half written must not appear.
    `told` says the client's errors in our words.
    """

    def __init__(self, writer: Any, told: Callable[[], AbstractContextManager[None]]) -> None:
        self._writer, self._told, self._place, self.closed = writer, told, 0, False

    def write(self, data: Any) -> int:
        given = memoryview(data).cast("B")
        with self._told():
            written = int(self._writer.write(given))
            if written != len(given):  # Arrow does not look at the count
                raise OSError(f"the store's client took {written} of {len(given)} bytes")
        self._place += written
        return written

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        """Nothing is sure before close."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with self._told():
                self._writer.close()
