"""The messages of a slot between two positions, as they arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.byte_buffers import at_every_byte
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres.log.messages import BEGIN, COMMIT, DATA, ENVELOPE, KEEPALIVE
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.server.lsn import lsn_text

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection

_BLOCK_BYTES, _BLOCK_MESSAGES = 4 << 20, 100_000
# In seconds: after this time without messages the server is asked how far it has read. It would report its position
# by itself much later, and a batch would wait for that.
_QUIET_S = 0.02
# In seconds between two reports of our position. Without them the server takes this machine for lost, and ends the
# connection (wal_sender_timeout).
_STATUS_S = 10.0
# A server that answers none of so many questions, about one a second, is lost although the connection is open. It reads
# questions at least every minute (half of wal_sender_timeout), also while it decodes a large transaction.
_UNANSWERED = 300


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


def streamed(
    connection: PgConnection, part: WalRange, started: Callable[[], object] = lambda: None
) -> Iterator[Received]:
    """Yield the messages of whole transactions in blocks; a block may end within a transaction.

    Nothing is confirmed but the start of the range, so that it can be read again. `started` is called once the stream
    has the slot, which nothing else can move from then on.
    """
    stream = _MessageStream(connection, part)
    started()
    with _reporting(stream):
        while not stream.done:
            stream.receive()
            if stream.is_full() or stream.done:
                if stream.kept:
                    yield Received.joined(stream.kept)
                stream.kept, stream.size, stream.messages = [], 0, 0


@contextmanager
def _reporting(stream: _MessageStream) -> Iterator[None]:
    """Report the position also while nothing is received, for example because a task waits for Spark."""
    ended = threading.Event()

    def report() -> None:
        with suppress(Exception):  # whoever receives gets the error of a broken connection
            while not ended.wait(_STATUS_S / 2):
                stream.report_if_due()

    thread = threading.Thread(target=report, name="penstock-log-reports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _MessageStream:
    def __init__(self, connection: PgConnection, part: WalRange) -> None:
        self.connection, self.part = connection, part
        self.kept: list[Received] = []
        self.size, self.messages = 0, 0
        self.done = False
        self._stream = connection.start_stream(start_statement(part))
        self._in_transaction = False
        self._reported = time.monotonic()
        self._unanswered = 0
        self._used = threading.RLock()  # libpq allows one thread at a time to use a connection

    def is_full(self) -> bool:
        """Return whether the messages should be a block now."""
        least = _BLOCK_BYTES // 2 if self._stream.starts_over else _BLOCK_BYTES
        return self.size >= least or self.messages >= _BLOCK_MESSAGES

    def receive(self) -> None:
        """Receive the messages that have arrived. If no message arrives, ask the server how far it has read."""
        with self._used:
            arrivals = self._stream.arrivals
            received = self.connection.received(self._stream, _QUIET_S)
            if not len(received) and self._stream.is_open:
                # The server answers with its position, which may be beyond the range though no message was sent.
                self._report(asks=True)
                received = self.connection.received(self._stream, 1.0)
            self._collect(received)
            # A large message arrives in many parts, and the answers come after it.
            self._note_answer(answered=len(received) > 0 or self._stream.arrivals > arrivals)
            self.report_if_due()
        if not self._stream.is_open and not self.done:
            raise ConnectionLost(
                "the server ended the stream of the replication slot",
                retryable=True,
                slot=self.part.slot,
                wanted=lsn_text(self.part.end),
            )

    def _note_answer(self, *, answered: bool) -> None:
        """Raise ConnectionLost if no question was answered for too long: a device on the way may have forgotten us."""
        self._unanswered = 0 if answered else self._unanswered + 1
        if self._unanswered > _UNANSWERED and self._stream.is_open:
            raise ConnectionLost(
                "the server does not answer on the stream of the replication slot",
                retryable=True,
                slot=self.part.slot,
                questions=self._unanswered,
                hint="check the proxies and firewalls between this machine and the server",
            )

    def report_if_due(self) -> None:
        """Report the position if that was long ago. Any thread may call this."""
        with self._used:
            if self._stream.is_open and time.monotonic() - self._reported > _STATUS_S:
                self._report(asks=False)

    def _collect(self, received: Received) -> None:
        """Keep the messages up to the end of the range. Keepalives are not kept: they contain no changes."""
        # A message without content does not belong to the log, and the byte behind it is ignored.
        tag = received.data[np.minimum(received.start + ENVELOPE, len(received.data) - 1)]
        kind = received.data[received.start]
        begins = np.flatnonzero((kind == DATA) & (tag == BEGIN))
        # BEGIN contains the position of the commit record.
        commits = at_every_byte(received.data, ">u8")[received.start[begins] + ENVELOPE + 1]
        beyond = begins[commits >= np.uint64(self.part.end)]
        keep = kind != KEEPALIVE
        if len(beyond):
            keep[beyond[0] :] = False
        bounds = np.flatnonzero((kind == DATA) & ((tag == BEGIN) | (tag == COMMIT)))
        for place in np.flatnonzero(kind == KEEPALIVE).tolist():
            if len(beyond) and place > beyond[0]:
                break
            before = bounds[: np.searchsorted(bounds, place)]
            inside = bool(tag[before[-1]] == BEGIN) if len(before) else self._in_transaction
            self._note_keepalive(received.body(place), inside=inside)
            if self.done:
                keep[place:] = False
                break
        self.done = self.done or bool(len(beyond))
        if len(bounds):
            self._in_transaction = bool(tag[bounds[-1]] == BEGIN)
        if keep.any():
            self.kept.append(received.chosen(keep))
        self.size += received.size
        self.messages += len(received)

    def _note_keepalive(self, message: bytes, *, inside: bool) -> None:
        # Within a transaction, the position may be after rows that are still to be sent.
        if not inside and int.from_bytes(message[1:9], "big") >= self.part.end:
            self.done = True
        elif message[17]:
            self._report(asks=False)

    def _report(self, *, asks: bool) -> None:
        # Written, flushed and applied: never more than the start of the range, so that the range can be read again.
        place = self.part.start.to_bytes(8, "big")
        # Microseconds since 2000-01-01, as in all times of the protocol.
        micros = int((time.time() - 946_684_800) * 1_000_000).to_bytes(8, "big", signed=True)
        self._stream.send(b"r" + place * 3 + micros + bytes([asks]))
        self._reported = time.monotonic()
