"""What the table asks of a place to keep files: the one small interface, and what an entry of a listing is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder. `modified` is epoch milliseconds, 0 where the store does not know."""

    name: str
    size: int
    is_dir: bool
    modified: int = 0


class Storage(Protocol):
    """Paths are text with forward slashes, absolute within the store. A missing file raises FileNotFoundError.

    Every call may be repeated. A call that raises anything but FileNotFoundError may still have taken effect.
    """

    @property
    def longest_name(self) -> int:
        """Bytes that the name of one folder may have."""
        ...

    def read(self, path: str) -> bytes: ...

    def read_range(self, path: str, offset: int, length: int) -> bytes: ...

    def size(self, path: str) -> int: ...

    def exists(self, path: str) -> bool: ...

    def create(self, path: str, data: bytes) -> bool:
        """Make the whole file durable, or nothing: False when the name is already taken. Makes parent folders."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Put the whole file, in place of an older one. Makes parent folders."""
        ...

    def list(self, path: str) -> list[Entry]:
        """The entries of a folder, in no order; empty when there is no such folder."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, or an empty folder; nothing happens when it is not there, or the folder is not empty."""
        ...

    def delete_tree(self, path: str) -> None: ...

    def rename_tree(self, source: str, target: str) -> None:
        """Move a folder. Refused with FileExistsError when the target exists."""
        ...

    def mkdirs(self, path: str) -> None: ...

    def open_input(self, path: str) -> Any:
        """A pyarrow file for random reads."""
        ...

    def open_output(self, path: str) -> Any:
        """A pyarrow output stream with tell(); the file is whole after close(). Makes parent folders."""
        ...
