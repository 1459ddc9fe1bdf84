"""Waits of tests for other threads, processes and servers.

A machine may let a process stand still for twenty seconds, at any place. A test waits until something is so, and its
limit is for a product that never comes there. What must not take long is measured in the time in which this process
ran.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Within the 600 seconds that a test has, so that it fails by the name of what it waited for.
LIMIT_S = 240.0
_TICK_S = 0.05


def until(true: Callable[[], object], what: str | Callable[[], str], limit_s: float = LIMIT_S) -> None:
    """Wait until a condition is true; after the limit, fail with what was waited for."""
    end = time.monotonic() + limit_s
    while not true():
        late = time.monotonic() > end
        # Once more, because this process may have stood still between the look and the clock.
        assert not late or true(), f"waited {limit_s:g} s for: {what() if callable(what) else what}"
        time.sleep(0.02)


def repeated(least: int, enough: Callable[[], object], what: str) -> Iterator[int]:
    """Yield the numbers of turns: so many, and then more of them until enough has happened, which a test counts.

    How often something happens beside a test in a turn depends on how fast the machine is.
    """
    yield from range(least)
    end, number = time.monotonic() + LIMIT_S, least
    while not enough():
        assert time.monotonic() < end, f"{number} turns, and waited {LIMIT_S:g} s more for: {what}"
        yield number
        number += 1


def ended(thread: threading.Thread) -> None:
    """Wait until a thread has ended."""
    thread.join(LIMIT_S)
    assert not thread.is_alive(), f"the thread {thread.name} did not end within {LIMIT_S:g} s"


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail if the block needs more time than this, without the time in which this process stood still."""
    over, ticks = threading.Event(), 0

    def count() -> None:
        nonlocal ticks
        while not over.wait(_TICK_S):
            ticks += 1

    counting = threading.Thread(target=count, daemon=True)
    counting.start()
    try:
        yield
    finally:
        over.set()
        counting.join()
    assert ticks * _TICK_S < seconds, f"took more than {seconds:g} s"


class StopAtFirstWait(threading.Event):
    """An event that happens once somebody waits for it: what runs until then has done all that it could."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True
