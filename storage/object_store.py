"""Tables on S3, Google Cloud Storage and Azure. Snapshot and schema files are created by conditional put.

An object store has no folders. `mkdirs` writes an empty object into a folder that has to exist while it is empty;
listings omit that object.
"""

from __future__ import annotations

import contextlib
import functools
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import obstore
import pyarrow as pa
from obstore import exceptions

from penstock.references import masked, resolve
from penstock.storage.base import SHOWS_TABLE, Entry, Output
from penstock.storage.conditional_create import probe
from penstock.storage.object_store_client import new_client, own_addresses
from penstock.storage.object_store_errors import explained, is_bucket_missing

FOLDER_MARK = ".penstock-folder"
# Minimum size of a ranged read: waiting for the first byte takes longer than transferring the first megabyte.
_WINDOW = 256 * 1024
# S3 deletes at most 1000 objects with one request, and lists as many.
_DELETES = 1000
_DELETES_AT_ONCE = 10


@dataclass(frozen=True, slots=True, repr=False)
class ObjectStorage:
    """One bucket of an object store.

    `config` uses obstore's option names. Its values may be references to secrets, which are resolved at the first call.
    A folder is renamed object by object, so a crash half way leaves objects in both folders.
    """

    kind: str  # s3, gs or abfs
    bucket: str
    config: tuple[tuple[str, str], ...] = ()

    @property
    def url_prefix(self) -> str:
        return f"{self.kind}://{self.bucket}"

    @property
    def longest_name(self) -> int:
        return 900  # the limit is 1,024 bytes for the whole key; the table's own file names need the rest

    def __repr__(self) -> str:
        settings = "".join(f", {name}={masked(name, value)}" for name, value in self.config)
        return f"ObjectStorage({self.kind}://{self.bucket}{settings})"

    def read(self, path: str) -> bytes:
        with self._request("read", path):
            return bytes(obstore.get(_client(self), _key(path)).bytes())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        if length == 0:
            return b""
        with self._request("read", path):
            return bytes(obstore.get_range(_client(self), _key(path), start=offset, length=length))

    def size(self, path: str) -> int:
        with self._request("look up", path):
            return int(obstore.head(_client(self), _key(path))["size"])

    def exists(self, path: str) -> bool:
        """Return whether the path is a file, or a folder that contains anything."""
        try:
            self.size(path)
        except FileNotFoundError:
            with self._request("look up", path):
                # One object below the path proves that the folder exists.
                return any(obstore.list(_client(self), _key(path), chunk_size=1))
        return True

    def create(self, path: str, data: bytes) -> bool:
        self._check_creates(path)
        with self._request("create", path):
            try:
                # One put, because multipart uploads of the client accept no condition.
                obstore.put(_client(self), _key(path), data, mode="create", use_multipart=False)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                return False
        return True

    def _check_creates(self, path: str) -> None:
        """Raise StoreUnsafe if files are replaced by creates, as by some servers that others than the clouds run.

        It is tried at the first create of a process: tables may exist that others created.
        """
        if self in _CHECKED:
            return
        with _CHECK:  # other tables are committed to at the same time
            if self in _CHECKED | _BEING_CHECKED:
                return
            if own_addresses(self.kind, {name: resolve(value) for name, value in self.config}):
                _BEING_CHECKED.add(self)
                try:
                    probe(self, path.rpartition("/")[0])
                finally:
                    _BEING_CHECKED.discard(self)
            _CHECKED.add(self)

    def write(self, path: str, data: bytes) -> None:
        with self._request("write", path):
            obstore.put(_client(self), _key(path), data, use_multipart=False)

    def list(self, path: str) -> list[Entry]:
        prefix = _key(path)
        with self._request("list", path):
            found = obstore.list_with_delimiter(_client(self), prefix or None)
        start = len(prefix) + 1 if prefix else 0
        folders = [Entry(name[start:].rstrip("/"), 0, is_dir=True) for name in found["common_prefixes"]]
        files = [
            Entry(meta["path"][start:], meta["size"], is_dir=False, modified=_millis(meta)) for meta in found["objects"]
        ]
        # Hadoop marks a folder by an empty object whose name is the folder's name and a slash.
        return folders + [file for file in files if file.name not in {"", FOLDER_MARK}]

    def walk(self, path: str) -> Iterator[Entry]:
        prefix = _key(path)
        start = len(prefix) + 1 if prefix else 0
        with self._request("list", path):
            for chunk in obstore.list(_client(self), prefix or None, chunk_size=_DELETES):
                for meta in chunk:
                    name = meta["path"][start:]
                    if name.rpartition("/")[2] not in {"", FOLDER_MARK}:
                        yield Entry(name, meta["size"], is_dir=False, modified=_millis(meta))

    def delete(self, path: str) -> None:
        key = _key(path)
        with self._request("delete", path), contextlib.suppress(FileNotFoundError):
            # The path may be an empty folder, which consists of its mark.
            obstore.delete(_client(self), [key, f"{key}/{FOLDER_MARK}"])

    def delete_tree(self, path: str) -> None:
        with self._request("delete", path):
            for keys in self._keys(path):
                _delete_all(_client(self), keys)

    def rename_tree(self, source: str, target: str, moved: Callable[[], None] | None = None) -> None:
        if self.exists(target):
            raise FileExistsError(f"{target} exists")
        old, new = _key(source), _key(target)
        proof, last = f"{old}/{SHOWS_TABLE}/", list[str]()
        with self._request("rename", source):
            for keys in self._keys(source):
                last += [key for key in keys if key.startswith(proof)]
                for key in keys:
                    if not key.startswith(proof):
                        obstore.copy(_client(self), key, new + key[len(old) :])
            for key in last:
                obstore.copy(_client(self), key, new + key[len(old) :])
        if moved is not None:
            moved()
        # After the copies, so that a crash loses no object.
        self.delete_tree(f"{source.rstrip('/')}/{SHOWS_TABLE}")
        self.delete_tree(source)

    @contextlib.contextmanager
    def _request(self, operation: str, path: str) -> Iterator[None]:
        """Raise the store's refusals as the OSErrors that every storage raises."""
        try:
            yield
        except (exceptions.NotFoundError, FileNotFoundError) as error:
            if is_bucket_missing(error):
                raise explained(error, self.kind, operation, self._url(path)) from error
            raise FileNotFoundError(f"no such object: {path}") from error
        except exceptions.BaseError as error:
            raise explained(error, self.kind, operation, self._url(path)) from error

    def _url(self, path: str) -> str:
        return f"{self.kind}://{self.bucket}/{_key(path)}"

    def _keys(self, path: str) -> Iterator[Sequence[str]]:
        for chunk in obstore.list(_client(self), _key(path), chunk_size=_DELETES):
            yield [meta["path"] for meta in chunk]

    def mkdirs(self, path: str) -> None:
        self.write(f"{path.rstrip('/')}/{FOLDER_MARK}", b"")

    def open_input(self, path: str) -> Any:
        # Arrow needs the size to find the footer. The request for it also reports a missing file here, before the
        # first read.
        return pa.PythonFile(_RangedFile(self, path, self.size(path)), "r")

    def open_output(self, path: str) -> Any:
        # The writer makes a multipart upload: the object appears only when it is closed, and complete.
        with self._request("write", path):
            upload = obstore.open_writer(_client(self), _key(path))
        return pa.PythonFile(Output(upload, lambda: self._request("write", path)), "w")


# Stores that were found to refuse the creation of an existing file, and the store under test, which also creates files.
_CHECKED: set[ObjectStorage] = set()
_BEING_CHECKED: set[ObjectStorage] = set()
_CHECK = threading.RLock()


def _key(path: str) -> str:
    return path.strip("/")


def _delete_all(client: Any, keys: Sequence[str]) -> None:
    """Delete objects. Other processes may delete some of them at the same time.

    Google and Azure then answer "not found", also to a repeated request whose first answer was lost. The client stops
    at the first such answer, so that the other objects are not deleted, or their errors are not seen.
    """
    try:
        obstore.delete(client, keys)
    except FileNotFoundError as error:
        if is_bucket_missing(error):
            raise
        with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
            list(pool.map(functools.partial(_delete_one, client), keys))


def _delete_one(client: Any, key: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        obstore.delete(client, [key])


def _millis(meta: Any) -> int:
    return int(meta["last_modified"].timestamp() * 1000)


@functools.lru_cache(maxsize=64)
def _client(storage: ObjectStorage) -> Any:
    """Return the client of this process, with the secrets that the references resolve to in this process."""
    return new_client(storage.kind, storage.bucket, {name: resolve(value) for name, value in storage.config})


class _RangedFile(io.RawIOBase):
    """A file for random reads by ranged requests. Small reads are served from the last window that was read."""

    def __init__(self, storage: ObjectStorage, path: str, size: int) -> None:
        super().__init__()
        self._storage, self._path, self._size = storage, path, size
        self._place = 0
        self._window, self._window_start = b"", 0

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._place)
        count = left if size is None or size < 0 else min(size, left)
        begin = self._place - self._window_start
        if not 0 <= begin <= begin + count <= len(self._window):
            length = min(max(count, _WINDOW), left)
            self._window = self._storage.read_range(self._path, self._place, length)
            self._window_start, begin = self._place, 0
        self._place += count
        return self._window[begin : begin + count]

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
