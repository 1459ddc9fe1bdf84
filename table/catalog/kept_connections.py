"""One idle connection for each server of names, which a process keeps for its next statements.

Connecting costs several round trips, and with TLS and a login more than the statements of a session.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

# Routers and proxies forget connections that were idle for a minute or more, without a word to either side.
_IDLE_SECONDS = 30


class KeptConnections:
    """The idle connections of this process, by what they are connected to.

    A process that forks leaves its connections to itself: two processes that write to one socket would read each
    other's replies, and closing it would end the session of the other one.
    """

    def __init__(self) -> None:
        self._idle: dict[tuple[int, Hashable], tuple[Any, float]] = {}
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._unlock)

    def take(self, place: Hashable, answers: Callable[[Any], bool]) -> Any | None:
        """Return the idle connection to a place, which nobody else has then; None without one that answers."""
        found = self._pop((os.getpid(), place))
        if found is None:
            return None
        connection, since = found
        if time.monotonic() - since <= _IDLE_SECONDS and answers(connection):
            return connection
        connection.close()
        return None

    def keep(self, place: Hashable, connection: Any) -> None:
        """Keep a connection that is not used any more, or close it if one to this place is idle already."""
        with self._lock:
            kept = self._idle.setdefault((os.getpid(), place), (connection, time.monotonic()))
        if kept[0] is not connection:
            connection.close()

    def close(self) -> None:
        """Close the idle connections of this process."""
        for process, place in list(self._idle):
            if process == os.getpid() and (found := self._pop((process, place))) is not None:
                found[0].close()

    def _pop(self, key: tuple[int, Hashable]) -> tuple[Any, float] | None:
        with self._lock:
            return self._idle.pop(key, None)

    def _unlock(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it


KEPT = KeptConnections()
atexit.register(KEPT.close)
