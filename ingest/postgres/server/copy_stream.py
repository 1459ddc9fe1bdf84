"""The data of a COPY or of a replication slot, as messages: read from the socket where that is possible.

libpq returns one message at a time, and a call from Python for each costs more than decoding it. On a connection
without encryption, the statement is therefore sent and its answer read on the socket that libpq has opened, as long as
libpq does not wait for anything there. libpq logs in, runs all other statements, and reads encrypted connections.
"""

from __future__ import annotations

import os
import select
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from penstock.ingest.database.buffers import SPARE
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.server.copy_frames import COPY_DATA, HEAD, data_frames

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from penstock.ingest.database.buffers import Bytes

# The kinds of frames that the server sends, besides data.
_COPY_OUT, _COPY_BOTH, _COPY_DONE, _COMPLETE, _READY, _ERROR = b"HWcCZE"
_ASIDE = b"NSA"  # notices, settings that have changed, notifications
_KNOWN = frozenset({COPY_DATA, _COPY_OUT, _COPY_BOTH, _COPY_DONE, _COMPLETE, _READY, _ERROR, *_ASIDE})
_LONGEST, _LONGEST_DATA = 1 << 24, (1 << 30) + 64  # bytes of a frame; a value may have a gibibyte
_READ_BYTES = 256 << 10
# What arrives within this time in seconds is read at once: a reading costs as much as decoding some hundred rows.
_GATHERED_S, _GATHERED_LONGEST_S, _LATE_S = 0.001, 0.01, 0.05


class ServerRefused(Exception):
    """The server answered with an error: its SQLSTATE (empty if the connection is lost) and its text."""

    def __init__(self, state: str, text: str) -> None:
        super().__init__(state, text)
        self.state, self.text = state, text


class CopyStream(Protocol):
    """The data that a statement returns. `is_open` is false once the server has ended it."""

    is_open: bool

    def start(self, statement: str) -> None:
        """Send the statement. Raise ServerRefused if the server refuses it."""

    def read(self, wanted: int) -> Received:
        """Return messages with about that many bytes, fewer if the data ends."""

    def read_now(self, wait_s: float) -> Received:
        """Return the messages that have arrived, after waiting so long for a first one."""

    def send(self, message: bytes) -> None:
        """Send a message on the stream, such as the position that has been reached."""

    def close(self) -> None: ...


@dataclass(slots=True)
class SocketStream:
    """A stream on the socket of a connection on which libpq waits for nothing. The socket does not block."""

    socket: socket.socket
    is_open: bool = False
    _data: Bytes = field(default_factory=lambda: np.empty(_READ_BYTES + SPARE, np.uint8), repr=False)
    _filled: int = 0
    _is_closed: bool = False  # by the server
    _sends_both_ways: bool = False

    @classmethod
    def of(cls, raw: PGconn) -> SocketStream:
        # A copy of the descriptor, because the socket is libpq's to close.
        return cls(socket.socket(fileno=os.dup(raw.socket)))

    def start(self, statement: str) -> None:
        text = statement.encode() + b"\0"
        self._write(b"Q" + (len(text) + 4).to_bytes(4, "big") + text)
        refusal: ServerRefused | None = None
        while True:
            try:
                kind, body = self._next_frame()
            except ServerRefused as error:
                raise refusal or error from None
            if kind in {_COPY_OUT, _COPY_BOTH}:
                self.is_open, self._sends_both_ways = True, kind == _COPY_BOTH
                return
            if kind == _ERROR:
                refusal = refusal_in(body)
            elif kind == _READY:
                raise refusal or ServerRefused("", "the statement returned no data")

    def read(self, wanted: int) -> Received:
        parts: list[Received] = []
        size = 0
        # Parts are copied to join them, which a message that has not arrived yet is not worth.
        while self.is_open and size < wanted - wanted // 8:
            filled = max(wanted - size, self._filled + 1, self._first_end())
            # The end is seen only when the frames are looked at, so a wait for more is short.
            while self._filled < filled and self._fill(filled, _LATE_S):
                pass
            parts.append(self._taken())
            size += parts[-1].size
        return Received.joined([one for one in parts if len(one)])

    def read_now(self, wait_s: float) -> Received:
        wanted, until = max(_READ_BYTES, self._first_end()), float("inf")
        # A server that sends a little all the time must not delay messages that have arrived.
        while self._filled < wanted and time.monotonic() < until and self._fill(wanted, wait_s):
            until, wait_s = min(until, time.monotonic() + _GATHERED_LONGEST_S), _GATHERED_S
        return self._taken()

    def send(self, message: bytes) -> None:
        self._write(b"d" + (len(message) + 4).to_bytes(4, "big") + message)

    def close(self) -> None:
        self.socket.close()

    def _taken(self) -> Received:
        """Take the messages of the complete frames, and the server's answer after them."""
        places, after = data_frames(self._data, self._filled)
        ends = np.append(places[1:], after) if len(places) else places
        found = Received(self._data, places + HEAD, ends)
        self._drop(after)
        while self.is_open and self._filled and self._data[0] != COPY_DATA and self._has_frame():
            self._note(*self._next_frame())
        if self._is_closed and self.is_open and not len(found):
            raise ServerRefused("", "the server closed the connection")
        return found

    def _note(self, kind: int, body: bytes) -> None:
        if kind == _ERROR:
            raise refusal_in(body)
        if kind == _READY or (kind == _COPY_DONE and self._sends_both_ways):
            self.is_open = False
        if kind == _READY:
            # libpq reads the following answer from its beginning.
            while self._filled:
                self._next_frame()

    def _next_frame(self) -> tuple[int, bytes]:
        """Return the kind and the content of the next frame, which has no data, when it has arrived."""
        while not self._has_frame():
            if self._is_closed:
                raise ServerRefused("", "the server closed the connection")
            self._fill(self._filled + _READ_BYTES, _LATE_S)
        end = self._first_end()
        kind, body = int(self._data[0]), self._data[HEAD:end].tobytes()
        self._drop(end)
        return kind, body

    def _has_frame(self) -> bool:
        return self._filled >= HEAD and self._first_end() <= self._filled

    def _first_end(self) -> int:
        """Return where the first frame ends, 0 if it is not known yet."""
        if self._filled < HEAD:
            return 0
        kind, end = int(self._data[0]), 1 + int.from_bytes(self._data[1:HEAD].tobytes(), "big")
        if not HEAD <= end <= (_LONGEST_DATA if kind == COPY_DATA else _LONGEST) or kind not in _KNOWN:
            # The connection is of no more use, and another one may be.
            raise ServerRefused("", "the server sent an answer that is not of the protocol")
        return end

    def _drop(self, size: int) -> None:
        """Forget the first bytes. The rest begins a new buffer, because messages keep the old one."""
        if size:
            rest = self._data[size : self._filled]
            self._data = np.empty(max(_READ_BYTES, len(rest)) + SPARE, np.uint8)
            self._data[: len(rest)] = rest
            self._filled = len(rest)

    def _fill(self, wanted: int, wait_s: float) -> bool:
        """Receive bytes, at most up to so many in the buffer. Return whether some arrived within the time."""
        if wanted > len(self._data) - SPARE:
            larger = np.empty(wanted + SPARE, np.uint8)
            larger[: self._filled] = self._data[: self._filled]
            self._data = larger
        place = self._data.data[self._filled : len(self._data) - SPARE]
        try:
            count = self.socket.recv_into(place)
        except BlockingIOError:
            if not (wait_s and select.select([self.socket], [], [], wait_s)[0]):
                return False
            # The server sends little at a time.
            time.sleep(_GATHERED_S)
            return self._fill(wanted, 0.0)
        self._filled += count
        self._is_closed = count == 0
        return count > 0

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            select.select([], [self.socket], [])
            rest = rest[self.socket.send(rest) :]


def refusal_in(body: bytes) -> ServerRefused:
    """Return the error that a frame contains: fields of a letter and a text each."""
    fields = {one[:1]: one[1:].decode("utf-8", "replace") for one in body.split(b"\0") if one}
    return ServerRefused(fields.get(b"C", ""), fields.get(b"M", "the server returned an error"))
