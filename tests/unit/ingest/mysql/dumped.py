"""A recorded log as the packets of a dump, so that what a server sends or leaves out can be chosen event by event."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.formats.change import ChangeBatch
from penstock.ingest.database.buffers import SPARE
from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.event_stream import DumpRequest, SegmentCutter
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.segment import Segment
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.wire import Packets
from tests.unit.ingest.mysql.logs import LOGS

END = b"\xfe\x00\x00\x02\x00"
ARTIFICIAL = 0x20


@dataclass(frozen=True)
class Event:
    """One event as it goes over the wire, and where it is in its file."""

    raw: bytes
    pos: int

    @property
    def kind(self) -> int:
        return self.raw[4]

    @property
    def stated(self) -> int:
        return int.from_bytes(self.raw[13:17], "little")

    def stating(self, next_pos: int, checksum: bool) -> Event:
        raw = self.raw[:13] + struct.pack("<I", next_pos) + self.raw[17:]
        return replace(self, raw=_sealed(raw[:-4]) if checksum else raw)


def _sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


def rotation(file: str, pos: int, checksum: bool = True) -> Event:
    """The ROTATE that a server makes up where a dump enters a file."""
    body = struct.pack("<Q", pos) + file.encode()
    size = events.HEADER + len(body) + 4 * checksum
    raw = struct.pack("<IBIIIH", 0, events.ROTATE, 1, size, 0, ARTIFICIAL) + body
    return Event(_sealed(raw) if checksum else raw, pos)


def heartbeat(file: str, pos: int) -> Event:
    size = events.HEADER + len(file) + 4
    return Event(_sealed(struct.pack("<IBIIIH", 0, events.HEARTBEAT, 1, size, pos, 0) + file.encode()), pos)


def recorded(name: str) -> list[Event]:
    """Every event of a recorded log file."""
    raw = (LOGS / f"{name}.000001").read_bytes()
    found, at = [], 4
    while at < len(raw):
        size = int.from_bytes(raw[at + 9 : at + 13], "little")
        found.append(Event(raw[at : at + size], at))
        at += size
    # A server clears the mark of a file in use and makes the checksum again.
    first = found[0].raw[:17] + b"\0\0" + found[0].raw[19:]
    found[0] = replace(found[0], raw=_sealed(first[:-4]))
    return found


def dump(name: str) -> list[Event]:
    """All that a server sends of a recorded log file."""
    return [rotation(f"{name}.000001", 4), *recorded(name)]


def packets(sent: Sequence[Event], end: bytes = END) -> Packets:
    payloads = [*(b"\0" + event.raw for event in sent), end]
    raw, starts, ends = bytearray(), [], []
    for number, payload in enumerate(payloads):
        raw += struct.pack("<I", len(payload) | (number & 0xFF) << 24)
        starts.append(len(raw))
        raw += payload
        ends.append(len(raw))
    raw += bytes(SPARE)
    return Packets(raw, np.array(starts, np.int64), np.array(ends, np.int64))


def segments(sent: Sequence[Event], request: DumpRequest, at_once: int = 1 << 30) -> Iterator[Segment]:
    """Return the blocks that the reader makes of these events, with a number of packets at a time."""
    cutter = SegmentCutter(request)
    for begin in range(0, len(sent), at_once):
        if not cutter.done:
            part = packets(sent[begin : begin + at_once])
            last = begin + at_once >= len(sent)
            yield from cutter.cut(part if last else Packets(part.raw, part.starts[:-1], part.ends[:-1]))


def from_start(name: str, **more: object) -> DumpRequest:
    return DumpRequest(LogPosition(f"{name}.000001", 4), 1, **more)  # type: ignore[arg-type]


def decoded(found: Iterator[Segment]) -> list[ChangeBatch]:
    decoder = Decoder(BinlogOptions())
    return [batch for segment in found for plain in unpacked(segment, 1 << 20) for batch in decoder.decode(plain)]
