"""Creating a file only where there is none, over a connection that may lose the store's reply."""

from __future__ import annotations

from penstock.storage.base import Storage


def put_if_absent(storage: Storage, path: str, data: bytes) -> bool:
    """Create the file; True when it holds `data` now, False when another writer's content has taken the name.

    The clients of object stores repeat a request whose reply was lost, and NFS and HDFS do the same: the second request
    is then refused because of the first. So a refusal counts only after a look at what the file holds. Two writers that
    put the same bytes are both told True.

    An OSError leaves it open whether the file is there, or will be: a request that timed out may take effect later.
    """
    try:
        if storage.create(path, data):
            return True
        return storage.read(path) == data
    except OSError:
        if _holds(storage, path, data):
            return True
        raise


def _holds(storage: Storage, path: str, data: bytes) -> bool:
    try:
        return storage.read(path) == data
    except OSError:
        return False
