"""Connections that a process keeps between two uses: those of the next batch are then open already.

One for each address waits here at most. It is closed when nobody has used it for a while, and also, as it is given
back, when it was opened long ago: names of hosts and the right to log in are looked at only as a connection is opened.
A process never uses, or closes, a connection of the process that it was forked from.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

# In seconds. A connection may wait so long for its next use, and be used again until it is so old.
IDLE_S, AGE_S = 10.0, 60.0


class Keepable(Protocol):
    """A connection that can be kept."""

    def is_usable(self, idle_seconds: float) -> bool:
        """Return whether it can be used again after it was idle for so long."""

    def close(self) -> None: ...


K = TypeVar("K", bound=Hashable)
C = TypeVar("C", bound=Keepable)


@dataclass(slots=True)
class _Held(Generic[C]):
    """A connection, and when it was opened and given back."""

    connection: C
    opened: float
    given_back: float = 0.0


@dataclass(slots=True)
class KeptConnections(Generic[K, C]):
    """The connections of one kind that wait for their next use in this process."""

    idle_seconds: float = IDLE_S
    age_seconds: float = AGE_S
    clock: Callable[[], float] = time.monotonic
    _waiting: dict[K, _Held[C]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _closer: threading.Thread | None = field(default=None, repr=False)
    _of_parents: list[object] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    @contextmanager
    def used(self, key: K, open_: Callable[[], C]) -> Iterator[C]:
        """Use a connection for the context: the one that waits, or a new one. After an error it is closed."""
        process, held = os.getpid(), self._taken(key) or _Held(open_(), self.clock())
        is_kept = False
        try:
            yield held.connection
            is_kept = process == os.getpid() and self._given_back(key, held)
        finally:
            if not is_kept and process == os.getpid():
                held.connection.close()

    def close(self) -> None:
        """Close the connections that wait."""
        with self._lock:
            found = list(self._waiting.values())
            self._waiting.clear()
        for held in found:
            held.connection.close()

    def _taken(self, key: K) -> _Held[C] | None:
        with self._lock:
            held = self._waiting.pop(key, None)
        if held is None:
            return None
        now = self.clock()
        if now - held.opened < self.age_seconds and held.connection.is_usable(now - held.given_back):
            return held
        held.connection.close()
        return None

    def _given_back(self, key: K, held: _Held[C]) -> bool:
        """Keep the connection; return False if another one waits already, or if it is old."""
        held.given_back = self.clock()
        if held.given_back - held.opened >= self.age_seconds:
            return False
        with self._lock:
            if key in self._waiting:
                return False
            self._waiting[key] = held
            if self._closer is None:
                self._closer = threading.Thread(target=self._close_idle, name="penstock-kept-connections", daemon=True)
                self._closer.start()
        return True

    def _close_idle(self) -> None:
        """Close what was not used for long, until nothing waits."""
        pause = threading.Event()
        while True:
            now = self.clock()
            with self._lock:
                due = [key for key, held in self._waiting.items() if now - held.given_back >= self.idle_seconds]
                idle = [self._waiting.pop(key) for key in due]
                if not self._waiting:
                    self._closer = None
                ends = [held.given_back + self.idle_seconds for held in self._waiting.values()]
            for held in idle:
                held.connection.close()
            if not ends:
                return
            pause.wait(max(0.0, min(ends) - now))

    def _forget(self) -> None:
        """Begin without connections after a fork: those of the parent process stay open, and are its own."""
        # Without a reference, the objects would be closed.
        self._of_parents.append(self._waiting)
        self._waiting, self._lock, self._closer = {}, threading.Lock(), None
