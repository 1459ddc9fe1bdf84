"""The packets of a dump as binlog segments: follows the file and its format, and counts every byte of the file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pymysql

from penstock.ingest.mysql.binlog.position_count import PositionCount, logged
from penstock.ingest.mysql.binlog.segment import (
    CHECKSUM,
    FORMAT_DESCRIPTION,
    HEADER,
    MARIADB_START_ENCRYPTION,
    ROTATE,
    FormatDescription,
    Headers,
    Segment,
    damaged_event,
    is_intact,
    parse_format,
    read_headers,
    refuse_unknown,
    verify_checksums,
)
from penstock.ingest.mysql.errors import BinlogReset, ChecksumMismatch
from penstock.ingest.mysql.position import FIRST_EVENT, LogPosition
from penstock.ingest.mysql.server.packet_heads import HEADER as PACKET_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.byte_buffers import Bools, Int64s
    from penstock.ingest.mysql.server.wire import Packets, PacketStream

BLOCK_BYTES = 16 << 20
_FILE_NAME = re.compile(r"[^\ufffd]+\.\d{6,}", re.DOTALL)
_AROUND_EVENT = PACKET_HEADER + 1  # the packet's header and a status byte


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """The start of a dump and the identity of the reader.

    The dump ends at `until` (exclusive, same file) or, without it, at the current end of the binlog. With `by_gtid` the
    server finds the start by itself and omits the transactions in the start's GTID set.
    """

    start: LogPosition
    server_id: int
    until: int | None = None
    by_gtid: bool = False
    block_bytes: int = BLOCK_BYTES
    heartbeat_s: float = 10.0
    # As long as TCP's probes need to notice a machine that is gone. A server that is only paused, or MariaDB when it
    # looks for a GTID in a large file, may send nothing for more than half a minute.
    silence_s: float = 120.0


class SegmentCutter:
    """A converter of dump packets to segments that contain exactly the events of the log file."""

    def __init__(self, request: DumpRequest) -> None:
        self._request = request
        # A dump from a GTID set starts with an artificial ROTATE event that names the file and the position.
        pos = FIRST_EVENT if request.by_gtid else request.start.pos
        self._count = PositionCount(request.start.file, pos, may_skip=request.by_gtid)
        self._format = FormatDescription("", has_checksum=False)
        self._begun = 0  # when the server began the file
        self.done = False

    def has_enough(self, stream: PacketStream) -> bool:
        """Return whether the collected packets fill a block, reach the requested end, or end the answer."""
        if stream.count == 0:
            return False
        # The start of the last packet suffices: a ROTATE event with the longest file name is shorter.
        if stream.size >= self._request.block_bytes or self._is_over(bytes(stream.last[:1024])):
            return True
        until = self._request.until
        # Counted by size too, because most events of MariaDB 11.4 and newer do not carry their position.
        collected = stream.size - _AROUND_EVENT * stream.count
        return until is not None and collected >= until - self._count.pos

    def _is_over(self, last: bytes) -> bool:
        """Return whether this payload ends the answer or is at or after the requested end."""
        if last[0] != 0:
            return True
        until, kind = self._request.until, last[5]
        if until is None or len(last) < HEADER + 1 or kind in {FORMAT_DESCRIPTION, ROTATE}:
            return until is not None and kind == ROTATE and _rotates_to(last)[0] != self._request.start.file
        next_pos = int.from_bytes(last[14:18], "little")
        # Headers contain the low 32 bits of a position, so the comparison is modulo 4 GiB: a difference below 2 GiB
        # counts as after.
        return next_pos != 0 and (next_pos - until) % (1 << 32) < 1 << 31

    def cut(self, packets: Packets) -> Iterator[Segment]:
        """Yield the segments of these packets, one per file, and follow format changes and rotations."""
        start, end = packets.starts, packets.ends
        status = np.frombuffer(packets.raw, np.uint8)[start]
        # The status byte is zero for an event. Any other value is the last packet: the end of the answer, or an
        # error.
        events = int(np.flatnonzero(status)[0]) if status.any() else len(status)
        start, end = start[:events] + 1, end[:events]
        headers = read_headers(packets.raw, start)
        in_file = logged(headers)
        wanted = self._wanted(headers, in_file)
        start, end, headers, in_file = start[:wanted], end[:wanted], headers.part(0, wanted), in_file[:wanted]
        self._check_sizes(headers, end - start)
        begin = 0
        for turn in np.flatnonzero((headers.kind == ROTATE) | (headers.kind == FORMAT_DESCRIPTION)).tolist():
            yield from self._piece(packets.raw, start[begin:turn], headers.part(begin, turn), in_file[begin:turn])
            if self.done:
                return
            if in_file[turn]:
                self._count.advance(headers.part(turn, turn + 1))
            self._turn(bytes(packets.raw[start[turn] : end[turn]]))
            begin = turn + 1
        yield from self._piece(packets.raw, start[begin:], headers.part(begin, wanted), in_file[begin:])
        if not self.done and events < len(status):
            self._ended_by(bytes(packets.raw[packets.starts[events] : packets.ends[events]]))

    def _wanted(self, headers: Headers, in_file: Bools) -> int:
        """Return the number of events up to the requested end. What follows it may be damaged or unknown."""
        until = self._request.until
        if until is None:
            return len(in_file)
        ends = self._count.pos + np.cumsum(np.where(in_file, headers.size, 0))
        last = np.flatnonzero(in_file & (ends >= until))
        return int(last[0]) + 1 if len(last) else len(in_file)

    def _check_sizes(self, headers: Headers, length: Int64s) -> None:
        wrong = np.flatnonzero(headers.size != length)
        if len(wrong):
            first = int(wrong[0])
            raise ChecksumMismatch(
                "a binlog event and its packet differ in size",
                type=int(headers.kind[first]),
                size=int(headers.size[first]),
                packet=int(length[first]),
                file=self._count.file,
                hint="the data was damaged in transit or changed by a proxy: start again; if this happens again, "
                "connect to the server directly",
            )

    def _piece(self, raw: bytearray | memoryview, start: Int64s, headers: Headers, in_file: Bools) -> Iterator[Segment]:
        """Yield the events of one file among these, up to the requested end."""
        if self.done or not in_file.any():
            return
        start, headers = start[in_file], headers.chosen(in_file)
        pos = self._count.advance(headers)
        # No range may start at the key of an encrypted file: the server would read it as an encrypted event.
        inside = headers.kind != MARIADB_START_ENCRYPTION
        start, pos, headers = start[inside], pos[inside], headers.chosen(inside)
        if not len(pos):
            return
        if not self._format.server_version:  # a server sends the format before all other events
            raise damaged_event(self._count.file, int(pos[0]))
        has_checksum = self._format.has_checksum
        segment = Segment(
            self._count.file,
            raw,
            start,
            start + headers.size - (CHECKSUM if has_checksum else 0),
            pos,
            headers.kind,
            headers.seconds,
            self._format.is_mariadb,
            self._count.pos,
            self._begun,
        )
        until = self._request.until
        if until is not None and segment.after >= until:
            self.done = True
            # An event is inside the range if it begins before the end.
            segment = segment.chosen(pos < until)
        if has_checksum:
            verify_checksums(segment)
        refuse_unknown(self._count.file, pos, headers.kind, headers.ignorable)
        yield segment

    def _turn(self, event: bytes) -> None:
        if event[4] == FORMAT_DESCRIPTION:
            self._format = parse_format(event[HEADER:])
            if (self._format.has_checksum or is_intact(_declared(event))) and not is_intact(event):
                raise damaged_event(self._count.file, self._count.pos)
            self._begun = int.from_bytes(event[:4], "little")
            self._check_file()
            return
        file, pos = _rotates_to(b"\0" + event)
        self.done |= self._request.until is not None and file != self._request.start.file
        self._count.enter(file, pos)

    def _check_file(self) -> None:
        """Raise BinlogReset if this is the file of the start by its name, but was begun at another time."""
        start = self._request.start
        is_start = self._count.file == start.file and not self._request.by_gtid
        if is_start and start.begun and self._begun and start.begun != self._begun:
            raise BinlogReset(
                "the server's binlog is not the one that this pipeline read before: its file of the same name was "
                "begun at another time",
                position=start,
                begun_before=_time_text(start.begun),
                begun_now=_time_text(self._begun),
                hint="the binlog was reset, or the server was restored or is another one: connect to the former "
                "server, or read the tables again (--resnapshot)",
            )

    def _ended_by(self, payload: bytes) -> None:
        self.done = True
        if payload[0] == 0xFF:
            code = int.from_bytes(payload[1:3], "little")
            text = payload[3:].decode("utf-8", "replace")
            raise pymysql.OperationalError(code, text[6:] if text.startswith("#") else text)


def _time_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ")


def _rotates_to(payload: bytes) -> tuple[str, int]:
    """Return the next file and the position in it; ChecksumMismatch if its name is damaged."""
    event = payload[1:]
    # An artificial ROTATE may have a checksum before any format event has declared it; its bytes show whether it has.
    if is_intact(event):
        event = event[:-CHECKSUM]
    file, pos = event[HEADER + 8 :].decode("utf-8", "replace"), int.from_bytes(event[HEADER : HEADER + 8], "little")
    # A name ends with its number; after a name with a wrong checksum there are four more bytes.
    if not _FILE_NAME.fullmatch(file):
        raise damaged_event(file, pos)
    return file, pos


def _declared(event: bytes) -> bytes:
    """Return a FORMAT_DESCRIPTION event with the mark that events have checksums, which damage may have removed."""
    return event[: -CHECKSUM - 1] + b"\1" + event[-CHECKSUM:]
