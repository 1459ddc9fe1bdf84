"""The data of a COPY or of a replication slot from libpq, message by message, for encrypted connections."""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.server.copy_stream import ServerRefused
from penstock.ingest.postgres.server.waits import is_ready

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult


@dataclass(slots=True)
class LibpqStream:
    """A stream that libpq reads and decrypts."""

    raw: PGconn
    is_open: bool = False
    arrivals: int = 0
    starts_over: bool = False  # each message is an object of its own

    def start(self, statement: str) -> None:
        run(self.raw, statement)
        self.is_open = True

    def read(self, wanted: int) -> Received:
        messages: list[bytes] = []
        size, receive = 0, self.raw.get_copy_data
        while self.is_open and size < wanted:
            count, data = receive(0)
            if count < 0:
                self._end()
                # libpq accepts the next command only after all results of this one were fetched.
                while self.raw.get_result() is not None:
                    pass
            else:
                messages.append(bytes(data))
                size += count
        return Received.of(messages)

    def read_now(self, wait_s: float) -> Received:
        messages: list[bytes] = []
        receive = self.raw.get_copy_data
        while self.is_open:
            count, data = receive(1)
            if count > 0:
                messages.append(bytes(data))
            elif count < 0:
                self._end()
            elif messages or not is_ready(self.raw.socket, select.POLLIN, wait_s):
                break
            else:
                self.raw.consume_input()
                self.arrivals += 1
                wait_s = 0.0
        return Received.of(messages)

    def send(self, message: bytes) -> None:
        self.raw.put_copy_data(message)
        self.raw.flush()

    def close(self) -> None:
        """Do nothing: the connection is closed by its owner."""

    def _end(self) -> None:
        self.is_open = False
        check(self.raw.get_result())


def run(raw: PGconn, statement: str) -> PGresult:
    """Return the result of a statement. Raise ServerRefused if the server refuses it."""
    result = raw.exec_(statement.encode())
    check(result)
    return result


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
