"""Events off the network: the server's dump of its log from a place on."""

from __future__ import annotations

import re
import struct
import uuid
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pymysql

from penstock.errors import PositionLost, SourceError
from penstock.ingest.mysql.connection import ask, connect, refused, server_facts
from penstock.ingest.mysql.errors import BinlogPurged, BinlogReset, ConnectionLost, ServerIdClash
from penstock.ingest.mysql.log.gtid import packed_set
from penstock.ingest.mysql.log.segment import (
    CHECKSUM,
    FORMAT_DESCRIPTION,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_V2,
    ROTATE,
    Format,
    Headers,
    Segment,
    parse_format,
    read_headers,
    refuse_unknown,
    unwrapped,
    verify_checksums,
)
from penstock.ingest.mysql.position import FIRST_EVENT, LogPosition, MySqlGtidSet
from penstock.ingest.mysql.wire import PacketStream, command, read_timeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ingest.mysql.bytesview import Int64s
    from penstock.ingest.mysql.connection import Connection, ServerAddress, ServerFacts
    from penstock.ingest.mysql.wire import Packets

BINLOG_DUMP, BINLOG_DUMP_GTID = 0x12, 0x1E
_NON_BLOCK, _THROUGH_GTID = 0x01, 0x04
_FATAL_READ = 1236
BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """From where, as whom. Ends at `until` (exclusive, same file) or, without it, at the log's end at the moment.

    With `gtid` the server finds the place by itself and leaves out the transactions of that set.
    """

    start: LogPosition
    server_id: int
    until: int | None = None
    by_gtid: bool = False
    verify: bool = True
    block_bytes: int = BLOCK_BYTES
    heartbeat_s: float = 10.0


@contextmanager
def dumping(server: ServerAddress, request: DumpRequest) -> Iterator[Iterator[Segment]]:
    """The log's segments from the request's start on; the connection lasts as long as the block.

    Every dump has an identity of its own, so that it does not push out another: a fresh uuid (MySQL), the server id
    (MariaDB). A lost connection is a `ConnectionLost`; nothing is skipped, the caller asks again from where it was.
    """
    connection = connect(server)
    try:
        facts = server_facts(connection)
        _introduce(connection, facts, request)
        _ask_for_log(connection, facts, request)
        yield _segments(connection, request)
    except pymysql.MySQLError as error:
        raise _dump_refused(error, server, request) from error
    except OSError as error:
        raise ConnectionLost(
            "the MySQL server went away during the dump", retryable=True, position=request.start, said=str(error)
        ) from error
    finally:
        connection.close()


def _introduce(connection: Connection, facts: ServerFacts, request: DumpRequest) -> None:
    ask(connection, f"SET @master_heartbeat_period = {int(request.heartbeat_s * 1e9)}")
    ask(connection, "SET @master_binlog_checksum = @@global.binlog_checksum")
    if facts.is_mariadb:
        ask(connection, "SET @mariadb_slave_capability = 4")
        if request.by_gtid:
            ask(connection, "SET @slave_connect_state = %s, @slave_gtid_strict_mode = 0", request.start.gtid)
    else:
        # Both names, for servers before and after the renaming.
        identity = str(uuid.uuid4())
        ask(connection, "SET @slave_uuid = %s, @replica_uuid = %s", identity, identity)
    read_timeout(connection, request.heartbeat_s * 3)


def _ask_for_log(connection: Connection, facts: ServerFacts, request: DumpRequest) -> None:
    start, flags = request.start, _NON_BLOCK
    beyond = bool(start.pos >> 32) and not request.by_gtid
    # MySQL's command with GTIDs is refused by a server whose gtid_mode is not ON, and where transactions without GTID
    # come: it is for starts by a set, and for places that the old command has no bits for.
    name = b"" if request.by_gtid else start.file.encode()
    place = FIRST_EVENT if request.by_gtid else start.pos
    if facts.is_mariadb or not (request.by_gtid or beyond):
        if beyond:
            raise SourceError(
                "a MariaDB server cannot start a dump beyond 4 GiB of a file",
                position=start,
                hint="set max_binlog_size to 1 GiB, and start this pipeline from the next file",
            )
        command(connection, BINLOG_DUMP, struct.pack("<IHI", place, flags, request.server_id) + name)
        return
    known = packed_set(MySqlGtidSet(start.gtid)) if request.by_gtid else struct.pack("<Q", 0)
    body = struct.pack("<HII", flags | (_THROUGH_GTID if request.by_gtid else 0), request.server_id, len(name)) + name
    command(connection, BINLOG_DUMP_GTID, body + struct.pack("<QI", place, len(known)) + known)


def _segments(connection: Connection, request: DumpRequest) -> Iterator[Segment]:
    stream, cutter = PacketStream(connection), SegmentCutter(request)
    while not cutter.done:
        stream.fill()
        over = stream.count > 0 and cutter.is_over(bytes(stream.payload(-1)[:1024]))
        if over or stream.size >= request.block_bytes:
            yield from cutter.cut(stream.take())


class SegmentCutter:
    """Packets of a dump into segments: follows the file and its format, drops what the server made up."""

    def __init__(self, request: DumpRequest) -> None:
        self._request = request
        self._file = request.start.file
        self._floor = request.start.pos if not request.by_gtid else FIRST_EVENT
        self._format = Format("", has_checksum=False)
        self.done = False

    def is_over(self, last: bytes) -> bool:
        """Whether this payload ends the answer or lies at or behind the wanted end."""
        if last[0] != 0:
            return True
        until, kind = self._request.until, last[5]
        if until is None or len(last) < HEADER + 1 or kind in {FORMAT_DESCRIPTION, ROTATE}:
            return until is not None and kind == ROTATE and _rotates_to(last) != self._request.start.file
        next_pos = int.from_bytes(last[14:18], "little")
        return (next_pos - until) % (1 << 32) < 1 << 31

    def cut(self, packets: Packets) -> Iterator[Segment]:
        start, end = packets.starts, packets.ends
        status = np.frombuffer(packets.raw, np.uint8)[start]
        events = int(np.flatnonzero(status)[0]) if status.any() else len(status)
        start, end = start[:events] + 1, end[:events]
        headers = read_headers(packets.raw, start)
        begin = 0
        for turn in np.flatnonzero((headers.kind == ROTATE) | (headers.kind == FORMAT_DESCRIPTION)).tolist():
            yield from self._piece(packets.raw, start[begin:turn], headers.part(begin, turn))
            self._turn(bytes(packets.raw[start[turn] : end[turn]]))
            begin = turn + 1
        yield from self._piece(packets.raw, start[begin:], headers.part(begin, events))
        if events < len(status):
            self._ended_by(bytes(packets.raw[packets.starts[events] : packets.ends[events]]))

    def _piece(self, raw: bytearray, start: Int64s, headers: Headers) -> Iterator[Segment]:
        """What the log really holds among these events, up to the wanted end."""
        if self.done:
            return
        real = ~headers.artificial & (headers.next_pos > 0)
        real &= (headers.kind != HEARTBEAT) & (headers.kind != HEARTBEAT_V2)
        start, size, kind = start[real], headers.size[real], headers.kind[real]
        pos = unwrapped((headers.next_pos[real] - size) % (1 << 32), self._floor)
        if not len(pos):
            return
        self._floor = int(pos[-1])
        refuse_unknown(self._file, pos, kind, headers.ignorable[real])
        has_checksum = self._format.has_checksum
        end = start + size - (CHECKSUM if has_checksum else 0)
        segment = Segment(
            self._file,
            raw,
            start,
            end,
            pos,
            kind,
            headers.seconds[real],
            self._format.is_mariadb,
            int(pos[-1] + size[-1]),
        )
        until = self._request.until
        if until is not None and pos[-1] + size[-1] >= until:
            self.done = True
            segment = segment.chosen(pos < until)
        if has_checksum and self._request.verify:
            verify_checksums(segment)
        yield segment

    def _turn(self, event: bytes) -> None:
        if event[4] == FORMAT_DESCRIPTION:
            self._format = parse_format(event[HEADER:])
        elif (file := _rotates_to(b"\0" + event)) != self._file:
            self.done |= self._request.until is not None
            self._file, self._floor = file, FIRST_EVENT

    def _ended_by(self, payload: bytes) -> None:
        self.done = True
        if payload[0] == 0xFF:
            code = int.from_bytes(payload[1:3], "little")
            text = payload[3:].decode("utf-8", "replace")
            raise pymysql.OperationalError(code, text[6:] if text.startswith("#") else text)


def _rotates_to(payload: bytes | memoryview) -> str:
    event = bytes(payload[1:])
    # A made-up ROTATE may have a checksum before any format has said so: its own bytes tell.
    if zlib.crc32(event[:-CHECKSUM]) == int.from_bytes(event[-CHECKSUM:], "little"):
        event = event[:-CHECKSUM]
    return event[HEADER + 8 :].decode()


_TO_ANONYMOUS = (
    "transactions without GTID stand here, which no server hands out whose mode is ON: SET GLOBAL gtid_mode ="
    " ON_PERMISSIVE; run this pipeline until it has caught up, then set ON again"
)

_NOT_THAT_LOG = (
    "the log was reset or the server restored, and what stands here now is another log; or its file is damaged (SHOW"
    " BINLOG EVENTS tells): read the tables again (--resnapshot)"
)


def _dump_refused(error: pymysql.MySQLError, server: ServerAddress, request: DumpRequest) -> SourceError:
    code = error.args[0] if error.args else 0
    said = str(error.args[-1])
    if "same server_uuid/server_id" in said:  # 1236 from MySQL, 4052 from MariaDB
        return ServerIdClash(
            "another reader came with our identity",
            server_id=request.server_id,
            said=said,
            hint="give every pipeline its own range in the option server-id",
            retryable=True,
        )
    if code == _FATAL_READ and re.search(
        r"purged|could not find (the )?(first|next) (binary )?log", said, re.IGNORECASE
    ):
        return BinlogPurged(
            "the log this pipeline wants is gone from the server",
            position=request.start,
            gtid=request.start.gtid if request.by_gtid else None,
            said=said,
            hint="read the tables again (--resnapshot), or go on from the oldest log with a gap "
            " (--accept-gap); keep the log longer: SET PERSIST binlog_expire_logs_seconds = 604800",
        )
    if code == _FATAL_READ and re.search(r"impossible position|position > file size", said):
        return BinlogReset(
            "the server's log is another than the one this pipeline read",
            position=request.start,
            said=said,
            hint="the log was reset or the server restored: read the tables again (--resnapshot)",
        )
    if code == _FATAL_READ:
        hint = _TO_ANONYMOUS if "anonymous transaction" in said else _NOT_THAT_LOG
        return PositionLost("the server cannot dump its log from here", position=request.start, said=said, hint=hint)
    return refused(error, server)
