"""Local files that survive a power failure once they are closed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError


class NameTooLong(ConfigError, OSError):
    """A name that the file system refuses because of its length."""


@contextlib.contextmanager
def named_errors(path: str | Path) -> Iterator[None]:
    """Add the file to errors of the system that know only a descriptor, and name what to do about a long name."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise NameTooLong(
                "a name is too long for the file system",
                file=path,
                bytes=len(Path(path).name.encode()),
                hint="shorten the option, table, column, tag or user that the name consists of",
            ) from error
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def fsync_folder(folder: str | Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SyncedFile:
    """An output file that is complete and synced to disk once `close` has returned."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=0)
        self._written = 0

    def write(self, data: Any) -> int:
        # write(2) may write only a part, as on a disk that is nearly full, and Arrow ignores the count. The next call
        # then raises the error.
        given = memoryview(data).cast("B")
        done = 0
        with named_errors(self._path):
            while done < len(given):
                count = self._file.write(given[done:])
                done += count
                self._written += count
        return done

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self._written

    def seekable(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        if self._file.closed:
            return
        with named_errors(self._path), self._file:
            os.fsync(self._file.fileno())
            size = os.fstat(self._file.fileno()).st_size
        # If another process truncated the file, its manifest entry would contain a size that the file does not have.
        if size != self._written:
            raise OSError(errno.EIO, f"{self._written} bytes were written but the file has {size}", str(self._path))
        fsync_folder(self._path.parent)
