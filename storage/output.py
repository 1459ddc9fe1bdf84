"""An adapter that presents the file of a store's client to Arrow as an output stream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class Output:
    """A file that is written sequentially and appears in the store when it is closed.

    This is deliberately not an io class: io objects close themselves when they are garbage collected, and a file that a
    crash left incomplete must not appear in the store. `converted_errors` converts the client's errors to Penstock's.
    """

    def __init__(self, writer: Any, converted_errors: Callable[[], AbstractContextManager[None]]) -> None:
        self._writer, self._converted_errors, self._place, self.closed = writer, converted_errors, 0, False

    def write(self, data: Any) -> int:
        given = memoryview(data).cast("B")
        with self._converted_errors():
            written = int(self._writer.write(given))
            if written != len(given):  # Arrow ignores the count
                raise OSError(f"the store's client took {written} of {len(given)} bytes")
        self._place += written
        return written

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        """Do nothing: data is durable only after close."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with self._converted_errors():
                self._writer.close()
