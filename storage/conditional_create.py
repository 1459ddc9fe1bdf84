"""The check that a store never creates a file that exists: on another one, two commits could replace each other."""

from __future__ import annotations

import contextlib
import uuid

from penstock.errors import ConfigError
from penstock.storage.base import Storage, put_if_absent


class StoreUnsafe(ConfigError):
    """A store that lets two writers create the same file, so that commits could overwrite each other."""


def probe(storage: Storage, folder: str) -> None:
    """Raise StoreUnsafe when the store creates the same file twice. The file used for the check is deleted."""
    path = f"{folder}/.probe-{uuid.uuid4()}"
    # The contents differ, because put_if_absent accepts an existing file that has the same content.
    try:
        first, second = put_if_absent(storage, path, b"x"), put_if_absent(storage, path, b"y")
    except OSError:
        with contextlib.suppress(OSError):  # the first failure is the one to report
            storage.delete(path)
        raise
    storage.delete(path)
    if not first or second:
        raise StoreUnsafe(
            "this store cannot create a file only if it does not exist",
            path=folder,
            hint="commits need that: use a local path, HDFS, or an object store with conditional put",
        )
