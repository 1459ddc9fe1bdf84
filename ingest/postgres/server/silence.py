"""The wait for the answer to a statement, which ends if no answer can come any more.

A statement that takes long and a proxy that carries nothing more look alike on their connection. So after a time
without a byte the server is asked, on another connection, whether it still works on the statement.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.ingest.database.findings import ConnectionLost

log = logging.getLogger(__name__)
_STATE = "SELECT pg_backend_pid(), pid, state, wait_event FROM (SELECT 1) AS one LEFT JOIN pg_catalog.pg_stat_activity"
# libpq's text of an error that the server sent has this after the severity, which may be in any language.
_SENT, _UNANSWERED = ":  ", "the server does not answer"
_HIDDEN = "a pooler hides the processes of the server; answer-timeout limits how long such a statement is waited for"
# The server is asked after each of these times without a byte, and after a shorter one again if there is a doubt. A
# single doubt may be chance: the answer may be on its way, or another connection may have failed.
_LONGEST_S, _DOUBTS = 60.0, 2
_AGAIN_S = 10.0


class ServerRefused(Exception):
    """The server answered with an error: its SQLSTATE (empty if the connection is lost) and its text."""

    def __init__(self, state: str, text: str) -> None:
        super().__init__(state, text)
        self.state, self.text = state, text


@dataclass(slots=True)
class Silence:
    """The time without a byte of the server. `doubt` returns why no answer can come any more, None if one may come.

    After `most_s` the wait ends in any case: a pooler hides whether the server works on a statement.
    """

    doubt: Callable[[], str | None]
    longest_s: float = field(default_factory=lambda: _LONGEST_S)
    doubts: int = _DOUBTS
    most_s: float = float("inf")
    _began: float = field(default_factory=time.monotonic, repr=False)
    _since: float = field(default_factory=time.monotonic, repr=False)
    _counted: int = field(default=0, repr=False)

    @classmethod
    def at_most(cls, seconds: float) -> Silence:
        """Return a wait that ends after this time, for statements that take no time."""
        return cls(lambda: _UNANSWERED, seconds, 1)

    def ended(self) -> None:
        """Note that bytes have arrived, or that a wait begins."""
        self._began, self._counted = time.monotonic(), 0
        self._since = self._began

    @property
    def left_s(self) -> float:
        """How long to wait for a byte before `lasts` is called."""
        pause = min(self.longest_s, _AGAIN_S) if self._counted else self.longest_s
        ends = min(self._since + pause, self._began + self.most_s)
        return max(0.0, ends - time.monotonic())

    def lasts(self) -> None:
        """Note that nothing has arrived so far. Raise ServerRefused if it is certain that nothing will."""
        if self.left_s:
            return
        if time.monotonic() >= self._began + self.most_s:
            raise ServerRefused("", f"no byte of an answer for {self.most_s:g} s, the answer-timeout of the source")
        why = self.doubt()
        self._counted = self._counted + 1 if why else 0
        self._since = time.monotonic()
        if why and self._counted >= self.doubts:
            raise ServerRefused("", f"no byte of an answer for {time.monotonic() - self._began:.0f} s: {why}")


def doubt(ask: Callable[[str], tuple[int, Sequence[str | None]]], where: str, backend: int) -> str | None:
    """Return why no answer can come from a process of a server; None if it is at work, or if this is not known.

    `ask` returns the row of a query on another connection, and the number that libpq has for the process that answers.
    """
    try:
        known, (own, found, state, waits_for) = ask(f"{_STATE} ON pid = {backend}")
    except PenstockError as error:
        reason = str(error.facts.get("reason", error.message))
        # A server that refuses a connection is there, which says nothing of the other one. So is a pooler that accepts
        # one, and lets its statement wait until a connection of the server is free.
        if isinstance(error, ConnectionLost) and not (_SENT in reason or _UNANSWERED in reason):
            return f"another connection fails too: {reason}"
        log.warning("event=slow_statement server=%s pid=%d not_asked=%s", where, backend, reason)
        return None
    if own != str(known):
        log.warning("event=slow_statement server=%s not_asked=%s", where, _HIDDEN)
        return None
    if found is None:
        return f"the server has no process {backend} any more"
    if waits_for == "ClientWrite" or (state or "").startswith("idle"):
        return f"the server has sent what it has (process {backend} is {state}, and waits for {waits_for})"
    log.info("event=slow_statement server=%s pid=%d state=%s waits_for=%s", where, backend, state, waits_for)
    return None
