"""Errors of classes that are not ours: their text in one line, and what users can do."""

from __future__ import annotations

import errno
import os
import re

from penstock.errors import PenstockError

# The cause in the text of a Spark exception: a line with a class of Java or Python, perhaps after "::".
_CAUSE = re.compile(r"^(?:: )?(?:\w+\.)*(\w+(?:Error|Exception|Exit)): (.+)$", re.MULTILINE)
_DENIED = "change the permissions, or select another folder: this user may not access it"
_REPAIRS = {
    errno.ENOENT: "check the path: the folder does not exist",
    errno.ENOTDIR: "check the path: a part of it is a file, and not a folder",
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: "this disk is read-only, perhaps since it failed (see dmesg): repair it, or select another folder",
    errno.ENOSPC: "the disk is full: free space or inodes (df -i), also for temporary files (TMPDIR), and run again",
    errno.EDQUOT: "the quota of this user is used up: free some space, and run the command again",
}
# What the Python processes of Spark may lack, on any of its machines: by the class or the text of the cause.
_WORKERS = {
    "ModuleNotFoundError": (
        "a Python process of Spark lacks this module: install it for the Python that PYSPARK_PYTHON names, on the "
        "driver's machine and on all workers"
    ),
    "PYTHON_VERSION_MISMATCH": (
        "the workers need the Python version of the driver: install it there, at a path that PYSPARK_PYTHON names on "
        "all machines"
    ),
}
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def unexpected(error: Exception) -> PenstockError:
    """Return an error of an unknown class as ours: its text in one line, with the cause that Spark's text contains."""
    text = str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    named = isinstance(error, OSError) and error.filename is not None
    causes = _CAUSE.findall(text)
    kind = type(error).__name__
    if isinstance(error, OSError):
        # Arrow names no file. These numbers are of a disk of this machine all the same, others may be a store's.
        hint = _REPAIRS.get(error.errno or 0) if named or error.errno in _OF_DISKS else None
        hint = hint or (
            "check the disk, its permissions, the network, and the store's address and keys; run again with  "
            "--debug  to see where it failed"
        )
    else:
        last = ": ".join(causes[-1]) if causes else ""
        # Java's exceptions have no number, and Spark puts its own sentences before them.
        disk = next((_REPAIRS[number] for number in _OF_DISKS if os.strerror(number) in text), None)
        hint = disk or next((repair for sign, repair in _WORKERS.items() if sign in last), None)
        hint = hint or ("unexpected error; run again with  --debug  and include the traceback in a bug report")
    return PenstockError(
        f"{kind}: {error.strerror}" if isinstance(error, OSError) and named else f"{kind}: {first[:300]}",
        file=error.filename if isinstance(error, OSError) and named else None,
        cause=": ".join(causes[-1])[:300] if causes else None,
        hint=hint,
    )
