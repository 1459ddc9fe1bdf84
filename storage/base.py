"""The interface of a file store, and the rules of every store for the creation of files and for failures."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, cast

from penstock.errors import PenstockError, StoreError

# The folder of a table whose files show that it exists.
SHOWS_TABLE = "schema"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or folder in a listing. `modified` is in epoch milliseconds; 0 if the store does not know it."""

    name: str
    size: int
    is_dir: bool
    modified: int = 0
    nanos: int = 0  # the part of the modification time below a millisecond, on stores that know it

    @property
    def modified_nanos(self) -> int:
        return self.modified * 1_000_000 + self.nanos


class Storage(Protocol):
    """A store of files. Paths are text with forward slashes and absolute within the store.

    A missing file raises FileNotFoundError. Every call may be repeated. A call that raises anything other than
    FileNotFoundError may still have taken effect.
    """

    @property
    def longest_name(self) -> int:
        """Return the maximum length of a folder's name, in bytes."""
        ...

    @property
    def url_prefix(self) -> str:
        """Return what precedes a path of the store in URLs; an empty text for local disks."""
        ...

    def read(self, path: str) -> bytes: ...

    def read_range(self, path: str, offset: int, length: int) -> bytes: ...

    def size(self, path: str) -> int: ...

    def exists(self, path: str) -> bool: ...

    def create(self, path: str, data: bytes) -> bool:
        """Create the file and return True, or return False when a file with this name exists.

        Either the whole file becomes durable or nothing does. Missing parent folders are created.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write the whole file and replace an older one. Nobody ever finds a part of it.

        Missing parent folders are created.
        """
        ...

    def list(self, path: str) -> list[Entry]:
        """Return the entries of a folder in no particular order; an empty list if the folder does not exist."""
        ...

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield the files of a folder and of all folders below it in no particular order; nothing if it does not exist.

        The names are paths relative to the folder.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file or an empty folder. Do nothing when it does not exist or the folder is not empty."""
        ...

    def delete_tree(self, path: str) -> None: ...

    def rename_tree(self, source: str, target: str, moved: Callable[[], None] | None = None) -> None:
        """Move a folder. Raise FileExistsError when the target exists.

        `moved` is called when the target is complete, and before the store deletes files of the source. A store that
        copies the files copies those in the folder SHOWS_TABLE last, and deletes them first: a crash leaves no name
        whose table is incomplete.
        """
        ...

    def mkdirs(self, path: str) -> None: ...

    def open_input(self, path: str) -> Any:
        """Return a pyarrow file for random reads."""
        ...

    def open_output(self, path: str) -> Any:
        """Return a pyarrow output stream with tell(). The file is complete after close().

        Missing parent folders are created.
        """
        ...


class FolderStorage(Protocol):
    """A store in which a file is durable only once its folder is synced, which costs as much as a small file."""

    def write_together(self, files: Mapping[str, bytes]) -> None:
        """Do what `write` does with each file in order, and sync their folders at the end."""
        ...

    def write_hint(self, path: str, data: bytes) -> None:
        """Do what `write` does, but a power failure may empty the file or bring its older content back."""
        ...


def _by_folders(storage: Storage) -> FolderStorage | None:
    # isinstance would look at all methods of the protocol, each time.
    return cast(FolderStorage, storage) if hasattr(storage, "write_hint") else None


def write_together(storage: Storage, files: Mapping[str, bytes]) -> None:
    """Write the files in order. All are durable afterwards; no file needs to be durable earlier."""
    by_folders = _by_folders(storage)
    if by_folders is not None:
        by_folders.write_together(files)
        return
    for path, data in files.items():
        storage.write(path, data)


def write_hint(storage: Storage, path: str, data: bytes) -> None:
    """Write a file whose content is verified by everyone who reads it, so that it need not be durable."""
    by_folders = _by_folders(storage)
    if by_folders is not None:
        by_folders.write_hint(path, data)
    else:
        storage.write(path, data)


def read_hint(storage: Storage, path: str) -> int | None:
    """Return the number in a file that `write_hint` wrote, None if there is no such file or number.

    The file may be cut short or belong to another program; a number of 19 digits or more is no snapshot id.
    """
    try:
        text = storage.read(path).strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() and len(text) < 19 else None


def file_exists(storage: Storage, path: str) -> bool:
    """Return whether the path is a file, where it cannot be a folder.

    One request, while `exists` of an object store also lists when there is no such object: it may be a folder.
    """
    try:
        storage.size(path)
    except FileNotFoundError:
        return False
    return True


def put_if_absent(storage: Storage, path: str, data: bytes) -> bool:
    """Create the file.

    Return True when it contains `data` now, and False when another writer created it with other content.

    Clients of object stores, NFS and HDFS repeat a request whose reply was lost, and the repeated request is then
    refused because the first one succeeded. So after a refusal, the content of the file decides. If two writers put the
    same bytes, both get True.

    After an OSError it is unknown whether the file exists or will exist: a request that timed out may take effect
    later.
    """
    try:
        if storage.create(path, data):
            return True
        return storage.read(path) == data
    except OSError:
        if _has_content(storage, path, data):
            return True
        raise


def _has_content(storage: Storage, path: str, data: bytes) -> bool:
    try:
        return storage.read(path) == data
    except OSError:
        return False


# Waiting does not help against these: missing rights, a read-only mount, an invalid path.
_LASTING = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}
_FULL = {
    errno.ENOSPC: "the disk is full: free space or inodes (df -i), and run the command again",
    errno.EDQUOT: "the quota of this user is used up: free some space, and run the command again",
}


def store_error(failure: OSError, message: str, **facts: object) -> OSError:
    """Return the error to raise for a failure of the store.

    It is a StoreError, which is retried, if the failure may be temporary, and otherwise the failure itself. A disk that
    is full may soon have room again.
    """
    # Some storages raise these two classes without an errno.
    lasts = isinstance(failure, PermissionError | FileExistsError) or failure.errno in _LASTING
    if lasts or isinstance(failure, PenstockError):
        return failure
    return StoreError(message, hint=_FULL.get(failure.errno or 0), reason=str(failure), **facts)


class Output:
    """A file that is written sequentially and appears in the store when it is closed.

    This is deliberately not an io class: io objects close themselves when they are garbage collected, and a file that a
    crash left incomplete must not appear in the store. `converted_errors` converts the client's errors to Penstock's.
    """

    def __init__(self, writer: Any, converted_errors: Callable[[], AbstractContextManager[None]]) -> None:
        self._writer, self._converted_errors, self._place, self.closed = writer, converted_errors, 0, False

    def write(self, data: Any) -> int:
        # As bytes, because len() counts items, and a buffer may have wider items.
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
            # Set first, so that an upload whose close failed is not completed by a second close.
            self.closed = True
            with self._converted_errors():
                self._writer.close()
