"""Whole events of one binlog file in one buffer, described by arrays: position, length and kind of each event."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.byte_buffers import at_every_byte
from penstock.errors import PenstockError
from penstock.ingest.mysql.errors import ChecksumMismatch, StatementBinlogError, UnsupportedBinlogEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.byte_buffers import Bools, Bytes, Int64s

HEADER = 19
CHECKSUM = 4

QUERY, STOP, ROTATE, FORMAT_DESCRIPTION, XID, TABLE_MAP = 2, 3, 4, 15, 16, 19
WRITE_V1, UPDATE_V1, DELETE_V1, INCIDENT, HEARTBEAT, IGNORABLE, ROWS_QUERY = 23, 24, 25, 26, 27, 28, 29
WRITE, UPDATE, DELETE, GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS = 30, 31, 32, 33, 34, 35
TRANSACTION_CONTEXT, VIEW_CHANGE, XA_PREPARE, PARTIAL_UPDATE, TRANSACTION_PAYLOAD = 36, 37, 38, 39, 40
HEARTBEAT_V2, GTID_TAGGED = 41, 42
MARIADB_ANNOTATE, MARIADB_CHECKPOINT, MARIADB_GTID, MARIADB_GTID_LIST, MARIADB_START_ENCRYPTION = range(160, 165)
MARIADB_QUERY_COMPRESSED, MARIADB_WRITE_V1_COMPRESSED, MARIADB_DELETE_COMPRESSED = 165, 166, 171

ROWS = frozenset({WRITE_V1, UPDATE_V1, DELETE_V1, WRITE, UPDATE, DELETE})
UPDATES = frozenset({UPDATE_V1, UPDATE})
COMPRESSED = frozenset({TRANSACTION_PAYLOAD, *range(MARIADB_QUERY_COMPRESSED, MARIADB_DELETE_COMPRESSED + 1)})
TRANSACTION_STARTS = frozenset({GTID, ANONYMOUS_GTID, GTID_TAGGED, MARIADB_GTID})
# Known events that a reader of rows can ignore.
HARMLESS = frozenset(
    {XID, HEARTBEAT, HEARTBEAT_V2, IGNORABLE, ROWS_QUERY, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE, ROTATE}
    | {STOP, FORMAT_DESCRIPTION}
    | {5, 13, 14}  # session variables
    | {MARIADB_ANNOTATE, MARIADB_CHECKPOINT, MARIADB_GTID_LIST, MARIADB_START_ENCRYPTION}
)
# LOAD DATA in the formats STATEMENT and MIXED: the content of the file in several events, and then the statement.
LOADED_CONTENT, LOAD_QUERY = frozenset({9, 11, 17}), 18
# Kinds of it that no supported server writes.
_OLD_LOADS = frozenset({6, 8, 10, 12})
_OTHERS = frozenset({QUERY, LOAD_QUERY, TABLE_MAP, PARTIAL_UPDATE, XA_PREPARE, INCIDENT})
KNOWN = ROWS | COMPRESSED | TRANSACTION_STARTS | HARMLESS | LOADED_CONTENT | _OTHERS

_ARTIFICIAL, _IGNORABLE_FLAG = 0x20, 0x80
# Binlog version, server version, time, length of headers, checksum algorithm, checksum.
_SHORTEST_FORMAT = 2 + 50 + 4 + 1 + 1 + CHECKSUM


@dataclass(slots=True)
class Segment:
    """Events of one binlog file: `start` and `end` bound each event in `raw`, with header but without checksum.

    `pos` is the event's position in the file; for an event inside a compressed transaction it is the position of the
    outer event. `after` is the position after the last event read. Spare bytes follow the last event in `raw`. `begun`
    is when the server began the file, in seconds.
    """

    file: str
    raw: bytearray | memoryview
    start: Int64s
    end: Int64s
    pos: Int64s
    kind: Bytes
    seconds: Int64s
    mariadb: bool = False
    after: int = 0
    begun: int = 0

    def __len__(self) -> int:
        return len(self.start)

    @property
    def data(self) -> Bytes:
        return np.frombuffer(self.raw, np.uint8)

    def chosen(self, keep: Int64s | Bools) -> Segment:
        """Return a segment with the same buffer and only these events."""
        return replace(
            self,
            start=self.start[keep],
            end=self.end[keep],
            pos=self.pos[keep],
            kind=self.kind[keep],
            seconds=self.seconds[keep],
        )

    def body(self, event: int) -> bytes:
        """Return the bytes of an event after its header."""
        return bytes(self.raw[int(self.start[event]) + HEADER : int(self.end[event])])


@dataclass(frozen=True, slots=True)
class Headers:
    """The header fields of events at known positions."""

    seconds: Int64s
    kind: Bytes
    size: Int64s
    next_pos: Int64s
    artificial: Bools
    ignorable: Bools

    def part(self, begin: int, end: int) -> Headers:
        return self.chosen(slice(begin, end))

    def chosen(self, wanted: slice | Bools) -> Headers:
        return Headers(
            self.seconds[wanted],
            self.kind[wanted],
            self.size[wanted],
            self.next_pos[wanted],
            self.artificial[wanted],
            self.ignorable[wanted],
        )


def read_headers(raw: bytearray | memoryview, start: Int64s) -> Headers:
    """Read the headers of the events at these positions."""
    data = np.frombuffer(raw, np.uint8)
    # The header: time (4 bytes), kind (1), server id (4), size (4), position of the next event (4), flags (2).
    numbers = at_every_byte(data, "<u4")
    flags = at_every_byte(data, "<u2")[start + 17].astype(np.int64)
    return Headers(
        numbers[start].astype(np.int64),
        data[start + 4],
        numbers[start + 9].astype(np.int64),
        numbers[start + 13].astype(np.int64),
        flags & _ARTIFICIAL != 0,
        flags & _IGNORABLE_FLAG != 0,
    )


def refuse_unknown(file: str, pos: Int64s, kind: Bytes, ignorable: Bools) -> None:
    """Raise an error for an event of an unknown kind, unless it is marked as ignorable, and for an old LOAD DATA."""
    known = np.zeros(256, np.bool_)
    known[list(KNOWN)] = True
    strange = np.flatnonzero(~known[kind] & ~ignorable)
    if len(strange):
        first = int(strange[0])
        if int(kind[first]) in _OLD_LOADS:
            raise StatementBinlogError(
                "LOAD DATA was logged as a statement instead of rows, so the rows that it loaded are unknown",
                file=file,
                pos=int(pos[first]),
                hint="SET PERSIST binlog_format = ROW, make sure that no session sets STATEMENT or MIXED, and "
                "read the tables again (--resnapshot); mysqlbinlog shows the statement at this position",
            )
        raise UnsupportedBinlogEvent(
            "the binlog contains an event of an unknown type",
            type=int(kind[first]),
            file=file,
            pos=int(pos[first]),
            hint=(
                "the server is newer than this version of penstock supports: upgrade penstock, or disable the "
                "new feature on the server"
            ),
        )


@contextmanager
def reading(segment: Segment, event: int, part: str) -> Iterator[None]:
    """Add file and position to the error if an event cannot be parsed, for any exception of the parser.

    An event with a valid checksum may still be unreadable: a newer server wrote it, or a proxy modified it.
    """
    file, pos = segment.file, int(segment.pos[event])
    try:
        yield
    except PenstockError as error:
        error.facts = {"file": file, "pos": pos, **error.facts}
        raise
    except (ValueError, IndexError, KeyError, OverflowError, NotImplementedError) as error:
        reason = f"{error} is unknown" if isinstance(error, KeyError) else str(error)
        raise UnsupportedBinlogEvent(
            f"{part} cannot be decoded",
            file=file,
            pos=pos,
            reason=reason,
        ) from error


def verify_checksums(segment: Segment) -> None:
    """Check each event's last four bytes, which `end` excludes, against the checksum of all bytes before them."""
    view, computed = memoryview(segment.raw), zlib.crc32
    bounds = enumerate(zip(segment.start.tolist(), segment.end.tolist(), _checksums(segment), strict=True))
    for place, (begin, stop, expected) in bounds:
        if computed(view[begin:stop]) != expected:
            raise damaged_event(segment.file, int(segment.pos[place]))


def damaged_event(file: str, pos: int) -> ChecksumMismatch:
    return ChecksumMismatch(
        "the checksum of a binlog event does not match",
        file=file,
        pos=pos,
        hint="the file was damaged on disk or in transit: try again, then check the server's disk",
    )


def is_intact(event: bytes) -> bool:
    """Return whether the last four bytes of an event are the checksum of the bytes before them."""
    return zlib.crc32(event[:-CHECKSUM]) == int.from_bytes(event[-CHECKSUM:], "little")


def _checksums(segment: Segment) -> list[int]:
    """Return the checksum of each event, whose bytes are at no multiple of four."""
    places = segment.end[:, np.newaxis] + np.arange(CHECKSUM)
    found: list[int] = np.frombuffer(segment.raw, np.uint8)[places].view("<u4")[:, 0].tolist()
    return found


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """The fields of a FORMAT_DESCRIPTION event that a reader needs."""

    server_version: str
    has_checksum: bool

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.server_version.lower()


def parse_format(body: bytes) -> FormatDescription:
    """Parse the body of the event, which still includes its checksum."""
    if len(body) < _SHORTEST_FORMAT:
        raise UnsupportedBinlogEvent(
            "the format description event of the binlog is truncated",
            bytes=len(body),
            hint="the binlog was damaged on disk or in transit: try again, then check the server's disk",
        )
    version = body[2:52].rstrip(b"\0").decode("latin-1")
    # One byte for the algorithm and four for the checksum: present since MySQL 5.6, with any algorithm.
    return FormatDescription(version, body[-5] == 1)
