"""The data of a COPY or of a replication slot from libpq, message by message, for encrypted connections."""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.server.silence import ServerRefused, Silence
from penstock.ingest.postgres.server.waits import is_ready

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

_LOOK_S = 1.0
_WRITE_S = 60.0  # for the few bytes of a report, which a server takes at once


@dataclass(slots=True)
class LibpqStream:
    """A stream that libpq reads and decrypts."""

    raw: PGconn
    silence: Silence
    is_open: bool = False
    arrivals: int = 0
    starts_over: bool = False  # each message is an object of its own

    def start(self, statement: str) -> None:
        run(self.raw, statement, self.silence)
        self.is_open = True

    def read(self, wanted: int) -> Received:
        messages: list[bytes] = []
        size, receive, is_empty = 0, self.raw.get_copy_data, False
        self.silence.ended()
        while self.is_open and size < wanted:
            count, data = receive(1)
            if count < 0:
                self._end()
                # libpq accepts the next command only after all results of this one were fetched.
                while _next_result(self.raw, self.silence) is not None:
                    pass
            elif count:
                messages.append(bytes(data))
                size += count
                is_empty = False
            else:
                is_empty = _received(self.raw, self.silence, is_empty=is_empty)
        return Received.of(messages)

    def read_now(self, wait_s: float) -> Received:
        messages: list[bytes] = []
        receive, is_empty = self.raw.get_copy_data, False
        while self.is_open:
            count, data = receive(1)
            if count > 0:
                messages.append(bytes(data))
            elif count < 0:
                self._end()
            elif messages:
                break
            elif is_ready(self.raw.socket, select.POLLIN, wait_s if is_empty else 0.0):
                self.raw.consume_input()
                self.arrivals += 1
                wait_s, is_empty = 0.0, False
            elif is_empty:
                break
            else:
                self.raw.consume_input()  # libpq may have read a record of TLS in part
                is_empty = True
        return Received.of(messages)

    def send(self, message: bytes) -> None:
        # Otherwise libpq waits without end for a server that reads nothing.
        self.raw.nonblocking = 1
        self.raw.put_copy_data(message)
        until = time.monotonic() + _WRITE_S
        while self.raw.flush():
            left_s = until - time.monotonic()
            # libpq may have to read before it can write, as TLS may have to.
            if left_s <= 0 or not is_ready(self.raw.socket, select.POLLIN | select.POLLOUT, left_s):
                raise TimeoutError(f"the server reads no byte for {_WRITE_S:g} s")
            self.raw.consume_input()
        self.raw.nonblocking = 0

    def close(self) -> None:
        """Do nothing: the connection is closed by its owner."""

    def _end(self) -> None:
        self.is_open = False
        check(_next_result(self.raw, self.silence))


def run(raw: PGconn, statement: str, silence: Silence) -> PGresult:
    """Return the result of a statement. Raise ServerRefused if the server refuses it, or cannot answer any more."""
    from psycopg import Error as LibpqError
    from psycopg import pq

    silence.ended()
    try:
        raw.send_query(statement.encode())
    except LibpqError as error:
        raise ServerRefused("", str(error)) from error
    last = _next_result(raw, silence)
    while last is not None and last.status not in {pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH}:
        if (following := _next_result(raw, silence)) is None:
            break
        last = following
    if last is None:
        raise ServerRefused("", "the server returned no result")
    check(last)
    return last


def _next_result(raw: PGconn, silence: Silence) -> PGresult | None:
    """Return the next result of a statement when it has arrived, None after the last one."""
    from psycopg import Error as LibpqError

    is_empty = False
    while raw.is_busy():
        try:
            is_empty = _received(raw, silence, is_empty=is_empty)
        except LibpqError:
            break  # the result is the error that the server sent last, or that of the lost connection
    return raw.get_result()


def _received(raw: PGconn, silence: Silence, *, is_empty: bool) -> bool:
    """Read what has arrived, after waiting for it if the last call found nothing. Return whether there was nothing.

    libpq may read a record of TLS in part. The rest has left the socket, so a wait for the socket could wait for ever:
    libpq is asked before each wait, and after some time of it.
    """
    arrives = is_ready(raw.socket, select.POLLIN, min(silence.left_s, _LOOK_S) if is_empty else 0.0)
    if arrives:
        silence.ended()
    elif is_empty:
        silence.lasts()
    raw.consume_input()
    return not arrives


def answers(raw: PGconn, wait_s: float) -> bool:
    """Return whether the server answers an empty statement within this time."""
    from psycopg import Error as LibpqError

    until = time.monotonic() + wait_s
    try:
        raw.send_query(b"")
        while raw.is_busy():
            if not is_ready(raw.socket, select.POLLIN, max(0.0, until - time.monotonic())):
                return False
            raw.consume_input()
        while (result := raw.get_result()) is not None:
            check(result)
    except (LibpqError, ServerRefused):
        return False
    return True


def check(result: PGresult | None) -> None:
    """Raise ServerRefused if the result is an error."""
    from psycopg import pq

    if result is None or result.status not in {pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE}:
        return
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    raise ServerRefused(state, text.decode("utf-8", "replace").strip())
