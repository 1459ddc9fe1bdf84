"""The server's packets in bulk: bytes straight off the socket into one buffer, packets found by their headers.

PyMySQL makes the connection and the login; from there its reader would cost a Python object and several calls a packet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import pymysql
from pymysql.constants import CR

from penstock.ingest.mysql.bytesview import SPARE

if TYPE_CHECKING:
    from penstock.ingest.mysql.connection import Connection

HEADER = 4
FULL_PACKET = 0xFFFFFF  # a payload of this length goes on in the next packet
_CHUNK = 1 << 20


class _Stream(Protocol):
    def readinto1(self, buffer: memoryview) -> int: ...


class _Socket(Protocol):
    def settimeout(self, seconds: float | None) -> None: ...


class _Inside(Protocol):
    """The parts of a PyMySQL connection used here; they have not changed in years."""

    _rfile: _Stream
    _sock: _Socket

    def _execute_command(self, command: int, sql: bytes) -> None: ...


@dataclass(slots=True)
class Packets:
    """Whole packets: where the payloads in `raw` start and end; spare bytes follow the last."""

    raw: bytearray
    starts: list[int]
    ends: list[int]


def command(connection: Connection, number: int, body: bytes) -> None:
    cast("_Inside", connection)._execute_command(number, body)


def read_timeout(connection: Connection, seconds: float | None) -> None:
    """How long a silent server is waited for from now on."""
    cast("_Inside", connection)._sock.settimeout(seconds)


class PacketStream:
    """The packets that answer a command, collected until the caller takes them.

    The caller calls `fill` until the last packet is the one that ends the answer or the block is large enough, then
    `take`. Payloads over 16 MiB arrive joined. Holds one block and what has begun of the next packet.
    """

    def __init__(self, connection: Connection) -> None:
        self._stream = cast("_Inside", connection)._rfile
        self._start_over(b"")

    def _start_over(self, rest: bytes | bytearray) -> None:
        # A buffer of its own for every block: arrays may still look into the one before.
        self._raw = bytearray(max(_CHUNK, 2 * len(rest)) + SPARE)
        self._raw[: len(rest)] = rest
        self._filled, self._at = len(rest), 0
        self._block = Packets(self._raw, [], [])
        self._at = _split(self._block, 0, self._filled)

    @property
    def size(self) -> int:
        return self._at

    @property
    def last(self) -> memoryview | None:
        """The last whole packet's payload; to be let go before the next `fill`."""
        block = self._block
        return memoryview(self._raw)[block.starts[-1] : block.ends[-1]] if block.starts else None

    def fill(self) -> None:
        """Wait for some bytes more. A connection that ends here was lost."""
        raw = self._raw
        if len(raw) - SPARE - self._filled < _CHUNK // 4:
            raw.extend(bytes(max(_CHUNK, len(raw) // 2)))
        with memoryview(raw) as whole, whole[self._filled : len(raw) - SPARE] as room:
            got = self._stream.readinto1(room)
        if not got:
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, "the server closed the connection")
        self._filled += got
        self._at = _split(self._block, self._at, self._filled)

    def take(self) -> Packets:
        block, rest = self._block, self._raw[self._at : self._filled]
        self._start_over(rest)
        return block


def _split(block: Packets, at: int, filled: int) -> int:
    raw, starts, ends = block.raw, block.starts, block.ends
    while at + HEADER <= filled:
        length = raw[at] | raw[at + 1] << 8 | raw[at + 2] << 16
        end = at + HEADER + length
        if end > filled:
            break
        if length == FULL_PACKET:
            joined = _joined(raw, at, filled)
            if joined is None:
                break
            starts.append(at + HEADER)
            ends.append(joined[0])
            at = joined[1]
            continue
        starts.append(at + HEADER)
        ends.append(end)
        at = end
    return at


def _joined(raw: bytearray, at: int, filled: int) -> tuple[int, int] | None:
    """The end of a payload continued over packets, made contiguous in place, and where the next packet begins."""
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
                raw[end : end + size] = raw[start : start + size]
                end += size
            return end, place
    return None
