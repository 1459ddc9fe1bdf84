"""A dict behind the storage interface."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.storage.base import Entry


class MemoryStore:
    """Folders exist as long as something lies in them. `modified` counts the writes."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.modified: dict[str, int] = {}

    @property
    def longest_name(self) -> int:
        return 255

    @property
    def url_prefix(self) -> str:
        return ""

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read(path)[offset : offset + length]

    def size(self, path: str) -> int:
        if path not in self.files:
            raise FileNotFoundError(path)
        return len(self.files[path])

    def exists(self, path: str) -> bool:
        return path in self.files or any(name.startswith(f"{path}/") for name in self.files)

    def create(self, path: str, data: bytes) -> bool:
        if path in self.files:
            return False
        self.write(path, data)
        return True

    def write(self, path: str, data: bytes) -> None:
        self.files[path] = data
        self.modified[path] = len(self.modified)

    def list(self, path: str) -> list[Entry]:
        found: dict[str, Entry] = {}
        for name, data in self.files.items():
            if name.startswith(f"{path}/"):
                first, _, rest = name[len(path) + 1 :].partition("/")
                found[first] = Entry(first, 0 if rest else len(data), bool(rest), self.modified.get(name, 0))
        return list(found.values())

    def walk(self, path: str) -> Iterator[Entry]:
        for name, data in self.files.items():
            if name.startswith(f"{path}/"):
                yield Entry(name[len(path) + 1 :], len(data), is_dir=False, modified=self.modified.get(name, 0))

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def delete_tree(self, path: str) -> None:
        self.files = {name: data for name, data in self.files.items() if not f"{name}/".startswith(f"{path}/")}

    def rename_tree(self, source: str, target: str, moved: Callable[[], None] | None = None) -> None:
        if self.exists(target):
            raise FileExistsError(target)
        copied = {name: data for name, data in self.files.items() if name.startswith(f"{source}/")}
        self.files |= {target + name[len(source) :]: data for name, data in copied.items()}
        if moved is not None:
            moved()
        self.delete_tree(source)

    def mkdirs(self, path: str) -> None:
        pass

    def open_input(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def open_output(self, path: str) -> Any:
        return _Output(self, path)


class _Output(io.BytesIO):
    def __init__(self, store: MemoryStore, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path

    def close(self) -> None:
        if not self.closed:
            self._store.write(self._path, self.getvalue())
        super().close()
