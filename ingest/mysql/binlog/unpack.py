"""Decompression of events: MySQL's transaction payloads, MariaDB's compressed queries and rows."""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.database.buffers import SPARE
from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.segment import COMPRESSED, HEADER, Segment
from penstock.ingest.mysql.errors import UnsupportedBinlogEvent
from penstock.ingest.mysql.server.wire import PayloadReader

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator

_IS_COMPRESSED = np.zeros(256, np.bool_)
_IS_COMPRESSED[list(COMPRESSED)] = True
_ZSTD, _NONE = 0, 255
_PIECE = 4 << 20
# In bytes of an event: the largest possible max_allowed_packet.
_LARGEST = 1 << 30
# MariaDB's compressed kinds of events and the plain kinds they contain.
_PLAIN = {165: events.QUERY, 166: 23, 167: 24, 168: 25, 169: 30, 170: 31, 171: 32}


@dataclass(slots=True)
class _Rebuilt:
    """Events copied one after another into a new buffer."""

    file: str
    mariadb: bool
    raw: bytearray = field(default_factory=bytearray)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    pos: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    seconds: list[int] = field(default_factory=list)

    def add(self, event: bytes | bytearray | memoryview, kind: int, pos: int, seconds: int) -> None:
        self.start.append(len(self.raw))
        self.raw += event
        self.end.append(len(self.raw))
        self.kind.append(kind)
        self.pos.append(pos)
        self.seconds.append(seconds)

    def segment(self) -> Segment:
        self.raw += bytes(SPARE)
        start, end, pos, seconds = (
            np.array(values, np.int64) for values in (self.start, self.end, self.pos, self.seconds)
        )
        return Segment(self.file, self.raw, start, end, pos, np.array(self.kind, np.uint8), seconds, self.mariadb)


def unpacked(segment: Segment, block_bytes: int) -> Iterator[Segment]:
    """Yield the segment with its compressed events unpacked, in pieces of about `block_bytes` at most.

    A transaction larger than that is streamed: memory holds at most one piece of it, but always at least one whole
    event. Events of an unpacked transaction have the position of the outer event.
    """
    if not _IS_COMPRESSED[segment.kind].any():
        yield segment
        return
    rebuilt = _Rebuilt(segment.file, segment.mariadb)
    for place in range(len(segment)):
        for event, kind in _opened(segment, place):
            if len(rebuilt.raw) + len(event) > block_bytes and rebuilt.raw:
                yield rebuilt.segment()
                rebuilt = _Rebuilt(segment.file, segment.mariadb)
            rebuilt.add(event, kind, int(segment.pos[place]), int(segment.seconds[place]))
    yield rebuilt.segment()


def opened_query(segment: Segment, place: int) -> bytes:
    """Return the body of a QUERY event, compressed or not."""
    event, _ = next(_opened(segment, place))
    return bytes(event[HEADER:])


def _opened(segment: Segment, place: int) -> Iterator[tuple[bytes | memoryview, int]]:
    kind = int(segment.kind[place])
    event = memoryview(segment.raw)[int(segment.start[place]) : int(segment.end[place])]
    try:
        if kind == events.TRANSACTION_PAYLOAD:
            yield from _payload_events(bytes(event[HEADER:]))
        elif kind == events.MARIADB_QUERY_COMPRESSED:
            yield _plain_query(bytes(event)), events.QUERY
        elif kind in _PLAIN:
            yield _plain_rows(bytes(event), _PLAIN[kind]), _PLAIN[kind]
        else:
            yield event, kind
    except (ValueError, IndexError, KeyError, zlib.error, zstd.ZstdError) as error:
        raise UnsupportedBinlogEvent(
            "a compressed binlog event cannot be decompressed",
            file=segment.file,
            pos=int(segment.pos[place]),
            reason=str(error),
        ) from error


def _payload_events(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the inner events of a transaction as they are decompressed; they have no checksum."""
    reader, algorithm, size = PayloadReader(body), _ZSTD, 0
    # Numbered fields: 1 is the size of the payload, 2 the algorithm, 0 ends them.
    while (name := reader.packed()) != 0:
        length = reader.packed()
        value = PayloadReader(reader.read(length))
        if name == 1:
            size = value.packed()
        elif name == 2:
            algorithm = value.packed()
    if algorithm not in {_ZSTD, _NONE}:
        raise ValueError(f"compression algorithm {algorithm} is unknown")
    packed = reader.read(size) if size else reader.read(reader.rest)
    pending = b""
    for piece in _decompressed(packed) if algorithm == _ZSTD else [packed]:
        # The last event of a piece may continue in the next one.
        pending += piece
        at = 0
        while len(pending) - at >= HEADER:
            length = int.from_bytes(pending[at + 9 : at + 13], "little")
            if length < HEADER:
                raise ValueError("an inner event is shorter than its header")
            if len(pending) - at < length:
                break
            yield pending[at : at + length], pending[at + 4]
            at += length
        pending = pending[at:]
    if pending:
        raise ValueError("the transaction payload ends within an event")


def _decompressed(packed: bytes) -> Iterator[bytes]:
    while packed:  # there may be several frames
        decompressor = zstd.ZstdDecompressor()
        piece = decompressor.decompress(packed, max_length=_PIECE)
        yield piece
        while not decompressor.eof:
            if decompressor.needs_input:
                raise ValueError("the compressed transaction is truncated")
            yield decompressor.decompress(b"", max_length=_PIECE)
        packed = decompressor.unused_data


def _inflated(raw: bytes) -> bytes:
    """Decompress MariaDB's format.

    It consists of a byte (flag 1, method in 3 bits, size of the length in 3 bits), the length, and a zlib stream.
    """
    flags = raw[0]
    length_bytes = flags & 0x07
    if flags & 0x80 == 0 or flags >> 4 & 0x07:
        raise ValueError("the compression algorithm is unknown")
    length = int.from_bytes(raw[1 : 1 + length_bytes], "big")
    if length > _LARGEST:
        raise ValueError(f"the content has {length} bytes, more than any event can have")
    # One byte more than declared is allowed, so that longer content is noticed without decompressing all of it.
    content = zlib.decompressobj().decompress(raw[1 + length_bytes :], length + 1)
    if len(content) != length:
        raise ValueError("the content does not have its declared length")
    return content


def _plain_query(event: bytes) -> bytes:
    # The event up to the zero after the database name is the same as in a plain query.
    body = event[HEADER:]
    text = 13 + int.from_bytes(body[11:13], "little") + body[8] + 1
    return event[: HEADER + text] + _inflated(body[text:])


def _plain_rows(event: bytes, kind: int) -> bytes:
    """Return the event with its rows decompressed; only the row area is compressed."""
    at = HEADER + 8
    if kind in {events.WRITE, events.UPDATE, events.DELETE}:
        at += int.from_bytes(event[at : at + 2], "little")
    count, prefix = event[at], 1
    if count >= 0xFB:
        count, prefix = int.from_bytes(event[at + 1 : at + 3], "little"), 3
    at += prefix + (count + 7) // 8 * (2 if kind in events.UPDATES else 1)
    return event[:at] + _inflated(event[at:])
