"""Tables on HDFS. A file is written under a temporary name and renamed, and the rename fails if the name exists.

The client is hdfs-native rather than pyarrow, because pyarrow's `move` deletes an existing target: two committers would
overwrite each other. hdfs-native needs neither Hadoop nor a JVM. The cluster's configuration is read from
HADOOP_CONF_DIR, and the user name from HADOOP_USER_NAME.
"""

from __future__ import annotations

import contextlib
import functools
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError, StoreError
from penstock.references import masked, resolve
from penstock.storage.base import Entry, Output

try:
    import hdfs_native
except ImportError as error:
    raise ConfigError("the HDFS client is not installed", hint="pip install hdfs-native") from error

_KERBEROS = {"security.kerberos.login.principal": "principal", "security.kerberos.login.keytab": "keytab"}
_SETTINGS = ("dfs.", "fs.viewfs.", "ipc.")


def hdfs_config(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return Hadoop's own settings, with Paimon's prefix `hadoop.` removed, and the options for the Kerberos login."""
    config = {}
    for name, value in options.items():
        plain = name.removeprefix("hadoop.")
        if plain.startswith(_SETTINGS) or name in _KERBEROS:
            config[plain] = value
    return tuple(sorted(config.items()))


@dataclass(frozen=True, slots=True, repr=False)
class HdfsStorage:
    """One HDFS file system, `hdfs://host:port` or `hdfs://nameservice`."""

    url: str
    config: tuple[tuple[str, str], ...] = ()

    @property
    def url_prefix(self) -> str:
        return self.url

    @property
    def longest_name(self) -> int:
        return 255  # the default of dfs.namenode.fs-limits.max-component-length

    def __repr__(self) -> str:
        return f"HdfsStorage({self.url}{''.join(f', {name}={masked(name, value)}' for name, value in self.config)})"

    def read(self, path: str) -> bytes:
        with _converted_errors(path):
            file = _client(self).read(path)
            return bytes(file.read(len(file)))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with _converted_errors(path):
            file = _client(self).read(path)
            # The client aborts the process's thread when bytes past the end of the file are requested.
            length = min(length, len(file) - offset)
            return bytes(file.read_range(offset, length)) if length > 0 else b""

    def size(self, path: str) -> int:
        with _converted_errors(path):
            return int(_client(self).get_file_info(path).length)

    def exists(self, path: str) -> bool:
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def create(self, path: str, data: bytes) -> bool:
        with self._aside(path, data) as temporary:
            try:
                # A file appears with all its bytes or not at all, unlike one that is created and then written.
                _client(self).rename(temporary, path, overwrite=False)
            except FileExistsError:
                # A rename of ours that the client repeats after a failover raises FileNotFoundError instead, and
                # put_if_absent then compares the content.
                return False
        return True

    def write(self, path: str, data: bytes) -> None:
        with self._aside(path, data) as temporary:
            try:
                _client(self).rename(temporary, path, overwrite=True)
            except FileNotFoundError:
                # The client repeats a rename after a failover; the second rename then fails because the first one moved
                # the file.
                if self.read(path) != data:
                    raise

    @contextlib.contextmanager
    def _aside(self, path: str, data: bytes) -> Iterator[str]:
        """Write the bytes to a hidden file in the same folder and yield its path.

        It is deleted at the end unless it was renamed.
        """
        folder, _, name = path.rpartition("/")
        # Listings of a table ignore hidden files, so a crash leaves nothing that could be mistaken for a file of the
        # table.
        temporary = f"{folder}/.{name}.{uuid.uuid4()}.tmp"
        with _converted_errors(path):
            try:
                with _client(self).create(temporary, hdfs_native.WriteOptions(create_parent=True)) as file:
                    if (written := file.write(data)) != len(data):
                        raise OSError(f"the client took {written} of {len(data)} bytes")
                yield temporary
            finally:
                # After the rename the temporary name does not exist, and deleting a missing file is not an error.
                _client(self).delete(temporary)

    def list(self, path: str) -> list[Entry]:
        with _converted_errors(path), contextlib.suppress(FileNotFoundError):
            found = list(_client(self).list_status(path))
            return [
                Entry(status.path.rpartition("/")[2], status.length, status.isdir, status.modification_time)
                for status in found
                if status.path.rstrip("/") != path.rstrip("/")  # listing a file returns the file itself
            ]
        return []

    def walk(self, path: str) -> Iterator[Entry]:
        start = len(path.rstrip("/")) + 1
        with _converted_errors(path), contextlib.suppress(FileNotFoundError):
            for status in _client(self).list_status(path, recursive=True):
                if not status.isdir and len(status.path) > start:  # listing a file returns the file itself
                    yield Entry(status.path[start:], status.length, is_dir=False, modified=status.modification_time)

    def delete(self, path: str) -> None:
        with _converted_errors(path):
            try:
                _client(self).delete(path)
            except RuntimeError as error:
                if "PathIsNotEmptyDirectoryException" not in str(error):
                    raise

    def delete_tree(self, path: str) -> None:
        with _converted_errors(path):
            _client(self).delete(path, recursive=True)

    def rename_tree(self, source: str, target: str, moved: Callable[[], None] | None = None) -> None:
        with _converted_errors(source):
            _client(self).mkdirs(target.rpartition("/")[0] or "/", create_parent=True)
            _client(self).rename(source, target, overwrite=False)
        if moved is not None:
            moved()

    def mkdirs(self, path: str) -> None:
        with _converted_errors(path):
            _client(self).mkdirs(path, create_parent=True)

    def open_input(self, path: str) -> Any:
        with _converted_errors(path):
            return pa.BufferReader(b"") if self.size(path) == 0 else pa.PythonFile(_client(self).read(path), "r")

    def open_output(self, path: str) -> Any:
        with _converted_errors(path):
            options = hdfs_native.WriteOptions(overwrite=True, create_parent=True)
            return pa.PythonFile(Output(_client(self).create(path, options), lambda: _converted_errors(path)), "w")


@contextlib.contextmanager
def _converted_errors(path: str) -> Iterator[None]:
    """Convert the name node's errors to OSErrors without its stack traces."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"no such file: {path}") from error
    except FileExistsError as error:
        raise FileExistsError(_first_line(error)) from error
    except (RuntimeError, OSError) as error:
        raise StoreError(
            f"HDFS failed at {path}: {_first_line(error)}",
            hint="the log of the name node has the details;  pipeline: {on-error: {retries: N}}  tries again",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).replace("\\n", "\n").partition("\n")[0]


def _client(storage: HdfsStorage) -> Any:
    return _client_of(storage, os.getpid())


@functools.lru_cache(maxsize=64)
def _client_of(storage: HdfsStorage, process: int) -> Any:
    """Return the client of this process. A client inherited by fork has no threads: calls on it would wait forever."""
    config = {name: resolve(value) for name, value in storage.config}
    login = {f"kerberos_{kind}": config.pop(name) for name, kind in _KERBEROS.items() if name in config}
    return hdfs_native.Client(storage.url, config, **login)
