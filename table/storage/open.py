"""From a path or URL to the store that keeps it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from penstock.errors import ConfigError
from penstock.table.storage.base import Storage
from penstock.table.storage.local import LocalStorage


class StoreUnsafe(ConfigError):
    """The store lets two writers make one file: commits could overwrite each other."""


def open_storage(url: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    """The store and the path within it. Nothing is asked of the store yet."""
    parts = urlsplit(url)
    if len(parts.scheme) <= 1:  # a plain path, or a drive letter
        return LocalStorage(), str(Path(url).expanduser().absolute())
    if parts.scheme == "file":
        return LocalStorage(), parts.path
    raise ConfigError(f"no store is known for {parts.scheme}://", path=url, hint="known are file, s3, gs, abfs, hdfs")


def probe(storage: Storage, folder: str) -> None:
    """StoreUnsafe when the store makes a file twice under one name. Leaves nothing behind."""
    path = f"{folder}/.probe-{uuid.uuid4()}"
    try:
        first, second = storage.create(path, b"x"), storage.create(path, b"y")
    finally:
        storage.delete(path)
    if not first or second:
        raise StoreUnsafe(
            "this store cannot make a file only where none is",
            path=folder,
            hint="commits need that: use a local or HDFS path, or an object store with conditional put",
        )
