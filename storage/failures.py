"""Classification of storage failures: some may be temporary, others need somebody to act."""

from __future__ import annotations

import errno

from penstock.errors import PenstockError, StoreError

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


def store_error(failure: OSError, message: str, *, hint: str | None = None, **facts: object) -> OSError:
    """Return the error to raise for a failure of the store.

    It is a StoreError, which is retried, if the failure may be temporary, and otherwise the failure itself.
    """
    lasts = isinstance(failure, PermissionError | FileExistsError) or failure.errno in _LASTING
    if lasts or isinstance(failure, PenstockError):
        return failure
    return StoreError(message, hint=hint, reason=str(failure), **facts)
