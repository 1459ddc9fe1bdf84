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
from penstock.ingest.mysql.server.packet_heads import PacketHeads

if TYPE_CHECKING:
    from penstock.byte_buffers import Int64s
    from penstock.ingest.mysql.server.connection import Connection

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
    Payloads over 16 MiB are joined. Holds one block and the beginning of the next packet in memory. `of_texts` says
    that the payloads have few zero bytes.
    """

    def __init__(self, connection: Connection, block_bytes: int, *, of_texts: bool = False) -> None:
        self._stream = cast("_Inside", connection)._rfile
        self._block = block_bytes + _CHUNK
        self._heads = PacketHeads(of_texts=of_texts)
        self._start_over(memoryview(b""))

    def _start_over(self, unread: memoryview) -> None:
        # A new buffer for every block, because arrays may still refer to the previous one. It gets room when it is
        # filled: an answer ends with a block.
        self._raw = _grown(unread, len(unread), len(unread))
        self._filled = len(unread)
        self._heads.start_over(self._raw, self._filled)

    @property
    def size(self) -> int:
        return self._heads.at

    @property
    def count(self) -> int:
        return self._heads.count

    @property
    def first(self) -> memoryview:
        """The payload of the first packet."""
        start, end = self._heads.bounds_of_first
        return self._raw[start:end]

    @property
    def last(self) -> memoryview:
        """The payload of the last packet."""
        start, end = self._heads.bounds_of_last
        return self._raw[start:end]

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
        self._heads.go_on(raw, self._filled)

    def pop_packets(self) -> Packets:
        """Return the collected packets and start a new block."""
        packets = Packets(self._raw, *self._heads.bounds())
        self._start_over(self._raw[self._heads.at : self._filled])
        return packets


def _grown(raw: memoryview, filled: int, size: int) -> memoryview:
    """Return a buffer for `size` bytes and the spare ones that begins with the `filled` bytes of another."""
    # Not a bytearray: that would be filled with zeros first, which costs as much as filling it with content.
    larger = np.empty(size + SPARE, np.uint8).data
    larger[:filled] = raw[:filled]
    return larger


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
