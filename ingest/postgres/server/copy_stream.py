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
from penstock.ingest.postgres.server.silence import ServerRefused, Silence
from penstock.ingest.postgres.server.waits import is_ready

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from penstock.byte_buffers import Bytes, Int64s

# The kinds of frames that the server sends, besides data.
_COPY_OUT, _COPY_BOTH, _COPY_DONE, _COMPLETE, _READY, _ERROR = b"HWcCZE"
_ASIDE = b"NSA"  # notices, settings that have changed, notifications
_KNOWN = frozenset({COPY_DATA, _COPY_OUT, _COPY_BOTH, _COPY_DONE, _COMPLETE, _READY, _ERROR, *_ASIDE})
_LONGEST, _LONGEST_DATA = 1 << 24, (1 << 30) + 64  # bytes of a frame; a value may have a gibibyte
# A buffer has room for a block of the log and one more reading, so that a block is in one buffer.
_READ_BYTES, _BUFFER_BYTES = 1 << 20, 5 << 20
# What arrives within these times in seconds is read at once: a reading costs as much as decoding some hundred rows.
_GATHERED_S, _GATHERED_LONGEST_S, _LATE_S = 0.001, 0.01, 0.02
# A server takes the few bytes that are sent at once, unless it is stuck or gone without a word.
_WRITE_S = 60.0
# If a reading has at least this many bytes, the next one waits for more, for this long.
_MUCH_BYTES, _MUCH_S = 64 << 10, 0.05


class CopyStream(Protocol):
    """The data that a statement returns. `is_open` is false once the server has ended it.

    `arrivals` grows whenever bytes arrive, also those of a message that is not complete.
    """

    is_open: bool
    arrivals: int

    @property
    def starts_over(self) -> bool:
        """True if the next messages are in another buffer, so that joining them to the latest ones copies both."""

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
    silence: Silence
    is_open: bool = False
    arrivals: int = 0
    _data: Bytes = field(default_factory=lambda: np.empty(_BUFFER_BYTES + SPARE, np.uint8), repr=False)
    _first: int = 0  # where the frames begin that were not taken yet
    _filled: int = 0
    _is_closed: bool = False  # by the server
    _sends_both_ways: bool = False
    _sends_much: bool = False

    @classmethod
    def of(cls, raw: PGconn, silence: Silence) -> SocketStream:
        # A copy of the descriptor, because the socket is libpq's to close.
        return cls(socket.socket(fileno=os.dup(raw.socket)), silence)

    def start(self, statement: str) -> None:
        text = statement.encode() + b"\0"
        self._write(b"Q" + (len(text) + 4).to_bytes(4, "big") + text)
        self.silence.ended()
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

    @property
    def starts_over(self) -> bool:
        return len(self._data) - SPARE - self._filled < _READ_BYTES

    def read(self, wanted: int) -> Received:
        self._reserve(wanted)
        self.silence.ended()
        parts: list[Received] = []
        size = 0
        while self.is_open and size < wanted - wanted // 8:
            least = max(wanted - size, self._waiting + 1, self._first_size())
            # The end is seen only when the frames are looked at, so a wait for more is short.
            while self._waiting < least and self._fill(least):
                pass
            if self._waiting < least:
                self.silence.lasts()
            taken = self._taken()
            if len(taken):
                parts.append(taken)
                size += taken.size + HEAD * len(taken)
        return Received.joined(parts)

    def read_now(self, wait_s: float) -> Received:
        # Without room for another byte, a reading of none would pass for the end of the connection.
        wanted = max(_READ_BYTES, self._first_size(), self._waiting + 1)
        self._reserve(wanted)
        # Messages may have arrived with the answer to the statement.
        if self._has_frame() or self._receive() or (self._has_arrived(1, wait_s) and self._receive()):
            pause_s, longest_s = (_MUCH_S, _MUCH_S) if self._sends_much else (_GATHERED_S, _GATHERED_LONGEST_S)
            until = time.monotonic() + longest_s
            # A server that sends a little all the time must not delay messages that have arrived.
            while self._waiting < wanted and (left := until - time.monotonic()) > 0:
                self._has_arrived(wanted - self._waiting, min(left, pause_s))
                if not self._receive():
                    break
        self._sends_much = self._waiting >= _MUCH_BYTES
        return self._taken()

    def send(self, message: bytes) -> None:
        self._write(b"d" + (len(message) + 4).to_bytes(4, "big") + message)

    def close(self) -> None:
        self.socket.close()

    @property
    def _waiting(self) -> int:
        """The bytes that were received and not taken yet."""
        return self._filled - self._first

    def _taken(self) -> Received:
        """Take the messages of the complete frames, and the server's answer after them."""
        found = Received(self._data, *self._taken_frames())
        while self.is_open and self._has_frame() and self._data[self._first] != COPY_DATA:
            self._note(*self._next_frame())
        if self._is_closed and self.is_open and not len(found):
            raise ServerRefused("", "the server closed the connection")
        return found

    def _taken_frames(self) -> tuple[Int64s, Int64s]:
        # Of a large frame that has not arrived, the content is not looked at.
        filled = self._waiting if self._has_frame() else 0
        places, after = data_frames(self._data[self._first :], filled)
        places += self._first
        self._first += after
        return places + HEAD, np.append(places[1:], self._first) if len(places) else places

    def _note(self, kind: int, body: bytes) -> None:
        if kind == _ERROR:
            raise refusal_in(body)
        if kind == _READY or (kind == _COPY_DONE and self._sends_both_ways):
            self.is_open = False
        if kind == _READY:
            # libpq reads the following answer from its beginning.
            while self._waiting:
                self._next_frame()

    def _next_frame(self) -> tuple[int, bytes]:
        """Return the kind and the content of the next frame, which has no data, when it has arrived."""
        while not self._has_frame():
            if self._is_closed:
                raise ServerRefused("", "the server closed the connection")
            if not self._fill(self._waiting + 1):
                self.silence.lasts()
        end = self._first + self._first_size()
        kind, body = int(self._data[self._first]), self._data[self._first + HEAD : end].tobytes()
        self._first = end
        return kind, body

    def _has_frame(self) -> bool:
        return self._waiting >= HEAD and self._first_size() <= self._waiting

    def _first_size(self) -> int:
        """Return the bytes of the first frame, 0 if they are not known yet."""
        if self._waiting < HEAD:
            return 0
        head = self._data[self._first : self._first + HEAD].tobytes()
        kind, size = head[0], 1 + int.from_bytes(head[1:], "big")
        if not HEAD <= size <= (_LONGEST_DATA if kind == COPY_DATA else _LONGEST) or kind not in _KNOWN:
            # The connection is of no more use, and another one may be.
            raise ServerRefused("", "the server sent an answer that is not of the protocol")
        return size

    def _reserve(self, size: int) -> None:
        """Make room for this number of bytes from the first frame on."""
        if self._first + size > len(self._data) - SPARE:
            # The rest begins a new buffer, because messages keep the old one.
            data = np.empty(max(_BUFFER_BYTES, size) + SPARE, np.uint8)
            data[: self._waiting] = self._data[self._first : self._filled]
            self._data, self._first, self._filled = data, 0, self._waiting

    def _fill(self, wanted: int) -> bool:
        """Receive bytes until this number is waiting, at most for a moment. Return whether there were any."""
        self._reserve(wanted)
        if self._receive():
            return True
        self._has_arrived(wanted - self._waiting, _LATE_S)
        return self._receive()

    def _receive(self) -> bool:
        """Receive the bytes that have arrived. Return whether there were any."""
        try:
            count = self.socket.recv_into(self._data.data[self._filled : len(self._data) - SPARE])
        except BlockingIOError:
            return False
        self._filled += count
        self.arrivals += count > 0
        self.silence.ended()
        self._is_closed = count == 0
        return count > 0

    def _has_arrived(self, size: int, wait_s: float) -> bool:
        """Wait until this number of bytes or the end has arrived; return False if neither arrived within the time."""
        # The server sends each message by itself, and waking up for each costs more than decoding it.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        try:
            if self.socket.family == socket.AF_UNIX and size > 1:
                time.sleep(_GATHERED_S)  # these sockets are readable with the first byte
            return is_ready(self.socket.fileno(), select.POLLIN, wait_s)
        finally:
            # libpq waits on the same socket, for any byte.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if not is_ready(self.socket.fileno(), select.POLLOUT, _WRITE_S):
                raise TimeoutError(f"the server reads no byte for {_WRITE_S:g} s")
            rest = rest[self.socket.send(rest) :]


def refusal_in(body: bytes) -> ServerRefused:
    """Return the error that a frame contains: fields of a letter and a text each."""
    fields = {part[:1]: part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part}
    return ServerRefused(fields.get(b"C", ""), fields.get(b"M", "the server returned an error"))
