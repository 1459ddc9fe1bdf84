"""Freed memory that stays with the process, since getting it back page by page costs more than a comparison in it."""

from __future__ import annotations

from functools import cache

import numpy as np

# The largest block that glibc lets raise its limits: smaller blocks then come from memory that was freed before, of
# which it keeps up to twice as much.
_LARGEST = (32 << 20) - (16 << 10)


@cache
def keep_freed_memory() -> None:
    """Let the C library keep freed arrays of the usual sizes, once in a process.

    glibc raises its limits to the size of the largest block that was freed. Other libraries, and glibc with settings
    in its environment variables, are not changed by this. The block is never written to, so it takes no memory.
    """
    np.empty(_LARGEST, np.uint8)
