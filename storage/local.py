"""Files on a local disk or on a mounted file system."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.storage.base import Entry
from penstock.storage.synced_file import SyncedFile, fsync_folder, named_errors

# Arrow's file writers write pages of a few kilobytes. One call into Python per page would cost more than copying the
# page to a buffer.
_OUTPUT_BUFFER = 128 << 10
FILE_NAME_BYTES = 255  # NAME_MAX of most file systems
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A local file system.

    `create`, `write`, and `close` of a file from `open_output` return once the file would survive a power failure: the
    file, its folder and the folders created for it are synced. With `sync` off (for tests and scratch warehouses)
    nothing is synced.
    """

    sync: bool = True

    @property
    def longest_name(self) -> int:
        return FILE_NAME_BYTES

    @property
    def url_prefix(self) -> str:
        return ""

    def read(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with Path(path).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def create(self, path: str, data: bytes) -> bool:
        """Create a whole file atomically.

        The content is written to a temporary file, synced, and hard-linked to its name, which fails if the name exists.
        """
        temporary = self._aside(path, data)
        try:
            # The content is synced before the name exists, and the folder after it: after a power failure, the name
            # is missing or refers to the whole file.
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as reason:
            # Some file systems, such as FAT, have no hard links.
            if reason.errno not in _NO_LINKS:
                raise
            return self._create_exclusively(path, data)
        finally:
            _unlink(temporary)
        self._sync_folder(_folder(path))
        return True

    def write(self, path: str, data: bytes) -> None:
        self._replace(path, data)
        self._sync_folder(_folder(path))

    def write_together(self, files: Mapping[str, bytes]) -> None:
        for path, data in files.items():
            self._replace(path, data)
        for folder in {_folder(path) for path in files}:
            self._sync_folder(folder)

    def write_hint(self, path: str, data: bytes) -> None:
        replace(self, sync=False).write(path, data)

    def list(self, path: str) -> list[Entry]:
        entries = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as found:
            for entry in found:
                with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                    stat = entry.stat()
                    millis, nanos = divmod(stat.st_mtime_ns, 1_000_000)
                    entries.append(Entry(entry.name, stat.st_size, entry.is_dir(), millis, nanos))
        return entries

    def walk(self, path: str) -> Iterator[Entry]:
        for entry in self.list(path):
            if entry.is_dir:
                for below in self.walk(f"{path}/{entry.name}"):
                    yield replace(below, name=f"{entry.name}/{below.name}")
            else:
                yield entry

    def delete(self, path: str) -> None:
        target = Path(path)
        try:
            target.unlink(missing_ok=True)
        # unlink of a folder fails with EISDIR on Linux and with EPERM on macOS.
        except (IsADirectoryError, PermissionError):
            if not target.is_dir():
                raise
            with contextlib.suppress(OSError):  # not empty
                target.rmdir()
        except OSError as reason:
            if reason.errno != errno.ENAMETOOLONG:  # such a file cannot exist
                raise

    def delete_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if Path(path).is_symlink():  # what it refers to is not in this tree
                Path(path).unlink()
            else:
                _delete_folder(path)

    def rename_tree(self, source: str, target: str, moved: Callable[[], None] | None = None) -> None:
        # rename(2) replaces an empty folder.
        if Path(target).exists():
            raise FileExistsError(errno.EEXIST, "the target exists", target)
        self._make_folders(Path(target).parent)
        Path(source).rename(target)
        self._sync_folder(Path(target).parent)
        self._sync_folder(Path(source).parent)
        if moved is not None:
            moved()

    def mkdirs(self, path: str) -> None:
        self._make_folders(Path(path))

    def open_input(self, path: str) -> Any:
        return pa.OSFile(path, "rb")

    def open_output(self, path: str) -> Any:
        target = Path(path)
        self._make_folders(target.parent)
        with named_errors(path):
            # Arrow's own files cannot be synced.
            file = pa.PythonFile(SyncedFile(target), "w") if self.sync else pa.OSFile(path, "wb")
        return pa.BufferedOutputStream(file, _OUTPUT_BUFFER)

    def _replace(self, path: str, data: bytes) -> None:
        """Write a file. Its name is durable once its folder is synced."""
        temporary = self._aside(path, data)
        try:
            os.replace(temporary, path)
        except OSError:
            _unlink(temporary)
            raise

    def _aside(self, path: str, data: bytes) -> str:
        # A hidden file in the same folder: the table's listings ignore it, so a crash leaves nothing that could be
        # mistaken for a file of the table.
        folder, name = os.path.split(path)
        temporary = f"{folder}/.{name}.{uuid.uuid4()}.tmp"
        with named_errors(path):
            try:
                descriptor = os.open(temporary, _NEW, 0o644)
            except FileNotFoundError:
                # Mostly the folder exists, so it is created only after the first attempt failed.
                self._make_folders(Path(folder))
                descriptor = os.open(temporary, _NEW, 0o644)
        try:
            self._fill(descriptor, data, path)
        except OSError:
            _unlink(temporary)
            raise
        return temporary

    def _create_exclusively(self, path: str, data: bytes) -> bool:
        """Create a file on a file system without hard links.

        A crash half way leaves a truncated file, which readers report.
        """
        try:
            descriptor = os.open(path, _NEW, 0o644)
        except FileExistsError:
            return False
        self._fill(descriptor, data, path)
        self._sync_folder(_folder(path))
        return True

    def _fill(self, descriptor: int, data: bytes, path: str) -> None:
        """Write all of a file, sync and close it. `path` is the name in errors."""
        try:
            with named_errors(path):
                done = 0
                # write(2) may write only a part, as on a disk that is nearly full. The next call then raises the error.
                while done < len(data):
                    done += os.write(descriptor, memoryview(data)[done:])
                if self.sync:
                    os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _make_folders(self, folder: Path) -> None:
        """Create a folder and its parents. A new folder is durable once its parent is synced."""
        with named_errors(folder):
            if folder.is_dir():
                return
        self._make_folders(folder.parent)
        with named_errors(folder):
            # Another process may create the folder at the same time, so that it exists by now.
            folder.mkdir(exist_ok=True)
        self._sync_folder(folder.parent)

    def _sync_folder(self, folder: str | Path) -> None:
        if self.sync:
            fsync_folder(folder)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _folder(path: str) -> str:
    return os.path.dirname(path)


def _delete_folder(path: str) -> None:
    try:
        shutil.rmtree(path)
    except OSError as reason:
        if reason.filename is None or Path(os.fsdecode(reason.filename)).is_absolute():
            raise
        # Files below the folder are named without it.
        raise OSError(reason.errno, reason.strerror, path) from reason
