"""The messages of a slot between two positions, as they arrive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres.log.messages import BEGIN, COMMIT, DATA, ENVELOPE, KEEPALIVE
from penstock.ingest.postgres.server.lsn import lsn_text

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection

_BLOCK_BYTES, _BLOCK_MESSAGES = 4 << 20, 100_000
# In seconds: after this time without messages the server is asked how far it has read. It would report its position
# by itself much later, and a batch would wait for that.
_QUIET_S = 0.02
# In seconds between two reports of our position. Without them the server ends the connection.
_STATUS_S = 10.0
_BOUNDS = frozenset({BEGIN, COMMIT})


@dataclass(frozen=True, slots=True)
class WalRange:
    """The transactions whose commit record begins in [start, end)."""

    slot: str
    publications: tuple[str, ...]
    start: int
    end: int
    binary: bool


def start_statement(part: WalRange) -> str:
    """Return the statement that starts the stream at the beginning of the range."""
    names = ",".join('"' + name.replace('"', '""') + '"' for name in part.publications).replace("'", "''")
    # Version 1 sends whole transactions after their commit. With streaming, rows come that may be rolled back later.
    options = f"proto_version '1', publication_names '{names}'"
    if part.binary:
        options += ", binary 'true'"
    return f'START_REPLICATION SLOT "{part.slot}" LOGICAL {lsn_text(part.start)} ({options})'


def streamed(connection: PgConnection, part: WalRange) -> Iterator[list[bytes]]:
    """Yield the messages of whole transactions in blocks; a block may end within a transaction.

    Nothing is confirmed but the start of the range, so that it can be read again.
    """
    connection.start_stream(start_statement(part))
    stream = _MessageStream(connection, part)
    while not stream.done:
        stream.receive()
        if stream.size >= _BLOCK_BYTES or len(stream.kept) >= _BLOCK_MESSAGES or stream.done:
            if stream.kept:
                yield stream.kept
            stream.kept, stream.size = [], 0


class _MessageStream:
    def __init__(self, connection: PgConnection, part: WalRange) -> None:
        self.connection, self.part = connection, part
        self.kept: list[bytes] = []
        self.size = 0
        self.done = False
        self._in_transaction = False
        self._reported = time.monotonic()

    def receive(self) -> None:
        """Receive what has arrived; ask the server how far it has read if nothing does."""
        received: list[bytes] = []
        is_open = self.connection.received(received, _QUIET_S)
        if not received and is_open:
            # The server answers with its position, which may be beyond the range though no message was sent.
            self._report(asks=True)
            if not self.connection.received(received, 1.0):
                is_open = False
        self._collect(received)
        if time.monotonic() - self._reported > _STATUS_S:
            self._report(asks=False)
        if not is_open and not self.done:
            raise ConnectionLost(
                "the server ended the stream of the replication slot",
                retryable=True,
                slot=self.part.slot,
                wanted=lsn_text(self.part.end),
            )

    def _collect(self, received: list[bytes]) -> None:
        """Keep the messages up to the end of the range; only those that bound transactions are looked at."""
        first = 0
        bounds = [place for place, one in enumerate(received) if one[0] != DATA or one[ENVELOPE] in _BOUNDS]
        for place in bounds:
            message = received[place]
            if message[0] == DATA and not self._is_in_range(message):
                self.kept += received[first:place]
                self.done = True
                break
            if message[0] == KEEPALIVE:
                self.kept += received[first:place]
                first = place + 1
                self._note_keepalive(message)
                if self.done:
                    break
        else:
            self.kept += received[first:]
        self.size += sum(map(len, received))

    def _is_in_range(self, message: bytes) -> bool:
        """Return whether a message that begins or ends a transaction belongs to the range."""
        # BEGIN contains the position of the commit record.
        begins = message[ENVELOPE] == BEGIN
        if begins and int.from_bytes(message[ENVELOPE + 1 : ENVELOPE + 9], "big") >= self.part.end:
            return False
        self._in_transaction = begins
        return True

    def _note_keepalive(self, message: bytes) -> None:
        # Within a transaction, the position may be that of a record after rows that are still to be sent.
        if not self._in_transaction and int.from_bytes(message[1:9], "big") >= self.part.end:
            self.done = True
        elif message[17]:
            self._report(asks=False)

    def _report(self, *, asks: bool) -> None:
        # Written, flushed and applied: never more than the start of the range, so that the range can be read again.
        place = self.part.start.to_bytes(8, "big")
        # Microseconds since 2000-01-01, as in all times of the protocol.
        micros = int((time.time() - 946_684_800) * 1_000_000).to_bytes(8, "big", signed=True)
        self.connection.send(b"r" + place * 3 + micros + bytes([asks]))
        self._reported = time.monotonic()
