"""Waiting for a socket, with a limit of time."""

from __future__ import annotations

import math
import select


def is_ready(descriptor: int, event: int, wait_s: float | None) -> bool:
    """Wait until a socket has an event, is closed or has failed. Return whether that was within the time."""
    # select() takes no descriptor from 1024 on, and a process may have many files open.
    waiter = select.poll()
    waiter.register(descriptor, event)
    return bool(waiter.poll(None if wait_s is None else math.ceil(wait_s * 1000)))
