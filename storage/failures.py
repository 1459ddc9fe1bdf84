"""Failures of a store that may pass, told from those that need somebody to do something."""

from __future__ import annotations

import errno

from penstock.errors import PenstockError, StoreError

# Waiting helps with none of these: rights, a read-only mount, a path that is none.
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


def store_error(failure: OSError, message: str, *, hint: str | None = None, **facts: object) -> OSError:
    """The error to raise for a failure of the store: a StoreError, which is retried, where it may pass."""
    lasts = isinstance(failure, PermissionError | FileExistsError) or failure.errno in _LASTING
    if lasts or isinstance(failure, PenstockError):
        return failure
    return StoreError(message, hint=hint, reason=str(failure), **facts)
