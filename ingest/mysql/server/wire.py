"""Bulk reading of the server's packets: bytes from the socket into one buffer, packets located by their headers.

PyMySQL establishes the connection and logs in; after that, its reader would cost a Python object and several calls per
packet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import pymysql
from pymysql.constants import CR

from penstock.ingest.database.buffers import SPARE

if TYPE_CHECKING:
    from penstock.byte_buffers import Int64s
    from penstock.ingest.mysql.server.connection import Connection

HEADER = 4
# A payload of this length continues in the next packet.
FULL_PACKET = 0xFFFFFF
_CHUNK = 1 << 20


class _ByteStream(Protocol):
    def readinto1(self, buffer: memoryview) -> int: ...


class _Socket(Protocol):
    def settimeout(self, seconds: float | None) -> None: ...


class _Inside(Protocol):
    """The private parts of a PyMySQL connection used here, which have been stable for years."""

    _rfile: _ByteStream
    _sock: _Socket

    def _execute_command(self, command: int, sql: bytes) -> None: ...


@dataclass(slots=True)
class Packets:
    """Whole packets: the positions in `raw` where payloads start and end; spare bytes follow the last payload."""

    raw: memoryview
    starts: Int64s
    ends: Int64s


def command(connection: Connection, number: int, body: bytes) -> None:
    """Send a command; the caller reads the answer."""
    cast("_Inside", connection)._execute_command(number, body)


def read_timeout(connection: Connection, seconds: float | None) -> None:
    """Set the time to wait for a silent server from now on."""
    cast("_Inside", connection)._sock.settimeout(seconds)


class PacketStream:
    """The packets that answer a command, collected until the caller fetches them.

    The caller calls `fill` until the last packet ends the answer or the block is large enough, then `pop_packets`.
    Payloads over 16 MiB are joined. Holds one block and the beginning of the next packet in memory.
    """

    def __init__(self, connection: Connection, block_bytes: int) -> None:
        self._stream = cast("_Inside", connection)._rfile
        self._block = block_bytes + _CHUNK
        self._start_over(memoryview(b""))

    def _start_over(self, unread: memoryview) -> None:
        # A new buffer for every block, because arrays may still refer to the previous one. It gets room when it is
        # filled: an answer ends with a block.
        self._raw = _grown(unread, len(unread), len(unread))
        self._starts: list[int] = []
        self._joined_ends: dict[int, int] = {}
        self._filled = len(unread)
        self._at = _split(self._raw, 0, self._filled, self._starts, self._joined_ends)

    @property
    def size(self) -> int:
        return self._at

    @property
    def count(self) -> int:
        return len(self._starts)

    def payload(self, place: int) -> memoryview:
        """Return the payload of one packet, -1 for the last."""
        place %= len(self._starts)
        after = self._starts[place + 1] - HEADER if place + 1 < len(self._starts) else self._at
        return self._raw[self._starts[place] : self._joined_ends.get(place, after)]

    def fill(self) -> None:
        """Wait for more bytes. If the connection ends or fails here, it was lost."""
        raw = self._raw
        if len(raw) - SPARE - self._filled < _CHUNK // 4:
            # A short answer fits in the first size, and a block in the second. Unused space costs no memory.
            larger = max(self._block, 2 * len(raw)) if self._filled else _CHUNK
            raw = self._raw = _grown(raw, self._filled, larger)
        try:
            got = self._stream.readinto1(raw[self._filled : len(raw) - SPARE])
        except OSError as error:
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, str(error)) from error
        if not got:
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, "the server closed the connection")
        self._filled += got
        self._at = _split(raw, self._at, self._filled, self._starts, self._joined_ends)

    def pop_packets(self) -> Packets:
        """Return the collected packets and start a new block."""
        starts = np.array(self._starts, np.int64)
        ends = np.append(starts[1:] - HEADER, self._at) if len(starts) else starts
        for place, end in self._joined_ends.items():
            ends[place] = end
        packets = Packets(self._raw, starts, ends)
        self._start_over(self._raw[self._at : self._filled])
        return packets


def _grown(raw: memoryview, filled: int, size: int) -> memoryview:
    """Return a buffer for `size` bytes and the spare ones that begins with the `filled` bytes of another."""
    # Not a bytearray: that would be filled with zeros first, which costs as much as filling it with content.
    larger = np.empty(size + SPARE, np.uint8).data
    larger[:filled] = raw[:filled]
    return larger


def _split(raw: memoryview, at: int, filled: int, starts: list[int], joined_ends: dict[int, int]) -> int:
    """Record where payloads start, from the header at `at` on, and return the position of the next header.

    A quarter of the cost of a short row is spent here. Therefore the third length byte, which is nearly always zero, is
    checked first, and the end of a payload is derived from the start of the next one.
    """
    note, last = starts.append, filled - HEADER
    while at <= last:
        long = raw[at + 2]
        length = raw[at] | raw[at + 1] << 8 | long << 16 if long else raw[at] | raw[at + 1] << 8
        if length == FULL_PACKET:
            joined = _joined(raw, at, filled)
            if joined is None:
                return at
            joined_ends[len(starts)] = joined[0]
            note(at + HEADER)
            at = joined[1]
            continue
        if at + HEADER + length > filled:
            return at
        at += HEADER
        note(at)
        at += length
    return at


def _joined(raw: memoryview, at: int, filled: int) -> tuple[int, int] | None:
    """Join a payload that spans several packets in place; return its end and the start of the next packet.

    None if the last of its packets is incomplete.
    """
    pieces, place = [], at
    while place + HEADER <= filled:
        length = raw[place] | raw[place + 1] << 8 | raw[place + 2] << 16
        if place + HEADER + length > filled:
            return None
        pieces.append((place + HEADER, length))
        place += HEADER + length
        if length < FULL_PACKET:
            end = at + HEADER
            for start, size in pieces:
                # Slices of equal length, so the buffer keeps its size. The pieces move to the front, over the
                # headers between them.
                raw[end : end + size] = raw[start : start + size]
                end += size
            return end, place
    return None


class PayloadReader:
    """A cursor that reads bytes field by field."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0

    def read(self, count: int) -> bytes:
        piece = self.raw[self.at : self.at + count]
        if len(piece) < count:
            raise ValueError("the event ends within a field")
        self.at += count
        return piece

    def number(self, width: int) -> int:
        return int.from_bytes(self.read(width), "little")

    def packed(self) -> int:
        """Read a length-encoded number."""
        first = self.number(1)
        if first in {0xFB, 0xFF}:
            raise ValueError(f"a length-encoded integer cannot begin with byte {first}")
        return first if first < 0xFB else self.number({0xFC: 2, 0xFD: 3, 0xFE: 8}[first])

    def text(self) -> bytes:
        """Read bytes with a length-encoded length."""
        return self.read(self.packed())

    @property
    def rest(self) -> int:
        return len(self.raw) - self.at
