"""Binlog events from the network: the server's dump of its binlog from a position on."""

from __future__ import annotations

import re
import struct
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pymysql

from penstock.errors import PositionLost, SourceError
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.mysql.binlog.event_stream import DumpRequest, SegmentCutter
from penstock.ingest.mysql.binlog.gtid import packed_set
from penstock.ingest.mysql.errors import BinlogPurged, BinlogReset, GtidDiverged, ServerIdClash
from penstock.ingest.mysql.position import FIRST_EVENT, MySqlGtidSet
from penstock.ingest.mysql.server.connection import ask, connect, server_facts
from penstock.ingest.mysql.server.refusals import is_lost, lost_reason, refused
from penstock.ingest.mysql.server.wire import PacketStream, command, read_timeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

BINLOG_DUMP, BINLOG_DUMP_GTID = 0x12, 0x1E
_NON_BLOCK, _ANNOTATE_ROWS, _THROUGH_GTID = 0x01, 0x02, 0x04
# ER_MASTER_FATAL_ERROR_READING_BINLOG, with which a server rejects most positions. Only the text says why.
_FATAL_READ = 1236


@contextmanager
def dumping(server: ServerAddress, request: DumpRequest) -> Iterator[Iterator[Segment]]:
    """Open a dump and return its segments from the request's start on; the connection lasts as long as the context.

    A server ends a dump when another one begins with the same identity. So each dump has an identity of its own: a
    fresh uuid (MySQL), the server id (MariaDB). A lost connection raises `ConnectionLost`; nothing is skipped, the
    caller starts again from its last position.
    """
    connection = connect(server)
    try:
        facts = server_facts(connection)
        _introduce(connection, facts, request)
        _ask_for_log(connection, facts, request)
        # Set last: PyMySQL sets the time for reading back whenever it sends a command.
        read_timeout(connection, request.silence_s)
        yield _segments(connection, request)
    except pymysql.MySQLError as error:
        raise _dump_refused(error, server, request) from error
    finally:
        connection.close()


def _introduce(connection: Connection, facts: ServerFacts, request: DumpRequest) -> None:
    # In nanoseconds. A server that has nothing to send then sends heartbeats, so that its silence means something.
    ask(connection, f"SET @master_heartbeat_period = {int(request.heartbeat_s * 1e9)}")
    # A server that writes checksums refuses a dump to a reader that has not announced that it understands them.
    ask(connection, "SET @master_binlog_checksum = @@global.binlog_checksum")
    if facts.is_mariadb:
        # To readers without this capability MariaDB sends a BEGIN in place of each GTID event.
        ask(connection, "SET @mariadb_slave_capability = 4")
        if request.by_gtid:
            ask(connection, "SET @slave_connect_state = %s, @slave_gtid_strict_mode = 0", request.start.gtid)
    else:
        # Both names of the variable, for servers before and after it was renamed.
        identity = str(uuid.uuid4())
        ask(connection, "SET @slave_uuid = %s, @replica_uuid = %s", identity, identity)


def _ask_for_log(connection: Connection, facts: ServerFacts, request: DumpRequest) -> None:
    # MariaDB omits ANNOTATE_ROWS events unless they are requested, but positions are counted from all events.
    # Without blocking, the server ends its answer at the end of the log, where a batch ends as well.
    start, flags = request.start, _NON_BLOCK | (_ANNOTATE_ROWS if facts.is_mariadb else 0)
    beyond = bool(start.pos >> 32) and not request.by_gtid
    # MySQL refuses its dump command with GTIDs if gtid_mode is not ON, and for transactions without GTID. It is used
    # only to start from a GTID set, and for positions that do not fit in the old command.
    name = b"" if request.by_gtid else start.file.encode()
    place = FIRST_EVENT if request.by_gtid else start.pos
    if facts.is_mariadb or not (request.by_gtid or beyond):
        if beyond:
            raise SourceError(
                "a MariaDB server cannot start a binlog dump at a position beyond 4 GiB",
                position=start,
                hint="set max_binlog_size to 1 GiB, and start this pipeline from the next file",
            )
        command(connection, BINLOG_DUMP, struct.pack("<IHI", place, flags, request.server_id) + name)
        return
    known = packed_set(MySqlGtidSet(start.gtid)) if request.by_gtid else struct.pack("<Q", 0)
    # Flags, server id, the file with the length of its name, the position, and the GTID set with its length.
    body = struct.pack("<HII", flags | (_THROUGH_GTID if request.by_gtid else 0), request.server_id, len(name)) + name
    command(connection, BINLOG_DUMP_GTID, body + struct.pack("<QI", place, len(known)) + known)


def _segments(connection: Connection, request: DumpRequest) -> Iterator[Segment]:
    stream, cutter = PacketStream(connection, request.block_bytes), SegmentCutter(request)
    while not cutter.done:
        stream.fill()
        if cutter.has_enough(stream):
            yield from cutter.cut(stream.pop_packets())


_TO_ANONYMOUS = (
    "the binlog contains transactions without GTID at this position, and a server with gtid_mode = ON does not "
    "send them: SET GLOBAL gtid_mode = ON_PERMISSIVE; run this pipeline until it has caught up, then set it to "
    "ON again"
)

_NOT_THAT_LOG = (
    "the binlog was reset or the server was restored, so this position is in another binlog; or the file is "
    "damaged (check with SHOW BINLOG EVENTS): read the tables again (--resnapshot)"
)


def _dump_refused(error: pymysql.MySQLError, server: ServerAddress, request: DumpRequest) -> SourceError:
    if is_lost(error):
        return ConnectionLost(
            "the connection to the MySQL server was lost during the binlog dump",
            retryable=True,
            server=f"{server.host}:{server.port}",
            position=request.start,
            reason=lost_reason(error),
        )
    code = error.args[0] if error.args else 0
    reason = str(error.args[-1])
    # Code 1236 from MySQL, 4052 from MariaDB, which words it as `same server_id` since 11.0.
    if re.search(r"same (server_uuid/)?server_id", reason):
        return ServerIdClash(
            "another binlog reader uses this pipeline's server id",
            server_id=request.server_id,
            reason=reason,
            hint="set a separate range in the option server-id of every pipeline",
            retryable=True,
        )
    refusal = _position_refused(request, code, reason)
    return refused(error, server) if refusal is None else refusal


def _position_refused(request: DumpRequest, code: int, reason: str) -> SourceError | None:
    """Return the error of a server whose log does not have the position, None if the reason is another one."""
    if code == _FATAL_READ and re.search(
        r"purged|could not find (the )?(first|next) (binary )?log", reason, re.IGNORECASE
    ):
        return BinlogPurged(
            "the binlog file that this pipeline needs was purged from the server",
            position=request.start,
            gtid=request.start.gtid if request.by_gtid else None,
            reason=reason,
            hint="read the tables again (--resnapshot), or continue at the oldest binlog file with a gap "
            "(--accept-gap); keep binlogs longer: SET PERSIST binlog_expire_logs_seconds = 604800",
        )
    if request.by_gtid and re.search(r"not in the (master|source)'s binlog", reason):
        return GtidDiverged(
            "the new server does not have all transactions that this pipeline has read, and has written others",
            gtid=request.start.gtid,
            reason=reason,
            hint="changes may be missing, and tables may have rows that the server lacks: connect to the former "
            "server, or read the tables again (--resnapshot)",
        )
    if code == _FATAL_READ and re.search(r"impossible position|position > file size", reason):
        return BinlogReset(
            "the server's binlog is not the one that this pipeline read before",
            position=request.start,
            reason=reason,
            hint="the binlog was reset or the server was restored: read the tables again (--resnapshot)",
        )
    if code == _FATAL_READ:
        hint = _TO_ANONYMOUS if "anonymous transaction" in reason else _NOT_THAT_LOG
        return PositionLost(
            "the server cannot send its binlog from this position", position=request.start, reason=reason, hint=hint
        )
    return None
