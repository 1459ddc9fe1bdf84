"""Keeps freed memory in a process that needs it again soon, and otherwise returns it to the system."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pyarrow as pa

# The largest block that glibc lets raise its limits: smaller blocks then come from memory that was freed before, of
# which it keeps up to twice as much.
_LARGEST = (32 << 20) - (16 << 10)


@cache
def keep_freed_memory() -> None:
    """Let the C library keep freed arrays of the usual sizes, once in a process.

    To get memory back from the system, page by page, costs more than a comparison in it.
    glibc raises its limits to the size of the largest block that was freed. Other libraries, and glibc with settings
    in its environment variables, are not changed by this. The block is never written to, so it takes no memory.
    """
    np.empty(_LARGEST, np.uint8)


def return_freed_memory() -> None:
    """Give memory that is not used back to the system: Arrow's, and the C library's if it is glibc."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
