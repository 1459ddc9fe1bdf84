"""Creation of files that do not exist yet, over a connection that may lose the store's reply."""

from __future__ import annotations

from penstock.storage.base import Storage


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
        if _holds(storage, path, data):
            return True
        raise


def _holds(storage: Storage, path: str, data: bytes) -> bool:
    try:
        return storage.read(path) == data
    except OSError:
        return False
