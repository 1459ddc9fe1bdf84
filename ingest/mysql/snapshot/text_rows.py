"""Rows of a SELECT in the text protocol.

Each row is a lane, and the cells of a column are located in all lanes at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pymysql

from penstock.ingest.database.buffers import unsigned_at
from penstock.ingest.mysql.binlog.table_map import Reader
from penstock.ingest.mysql.server.wire import PacketStream, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ingest.database.buffers import Bools, Bytes, Int64s
    from penstock.ingest.mysql.server.connection import Connection
    from penstock.ingest.mysql.server.wire import Packets

_QUERY = 0x03
_NULL = 0xFB
_LONG_LENGTHS = {0xFC: 2, 0xFD: 3, 0xFE: 8}


@dataclass(slots=True)
class RowBlock:
    """Some rows of a result; `start` and `end` bound each row in `data`."""

    data: Bytes
    start: Int64s
    end: Int64s
    columns: int

    def __len__(self) -> int:
        return len(self.start)

    def cells(self) -> Iterator[tuple[Int64s, Int64s, Bools]]:
        """Yield start, length and null of the cells, column by column.

        ValueError if a row does not end with its last cell.
        """
        at = self.start
        for _ in range(self.columns):
            first = self.data[at]
            null = first == _NULL
            start, length = at + 1, np.where(null, 0, first).astype(np.int64)
            for mark, width in _LONG_LENGTHS.items() if (first > _NULL).any() else ():
                long = np.flatnonzero(first == mark)
                if len(long):
                    # The top byte of an eight-byte length is zero: no cell is that long.
                    length[long] = unsigned_at(self.data, at[long] + 1, min(width, 7))
                    start[long] += width
            at = start + length
            yield start, length, null
        if (at != self.end).any():
            raise ValueError("a row of the result is longer than its last column")


def select(connection: Connection, sql: str, block_bytes: int) -> Iterator[RowBlock]:
    """Yield the rows of a SELECT in blocks of about `block_bytes`; the connection is free again after the last block.

    If the caller stops early, the connection is not usable any more and must be closed.
    """
    command(connection, _QUERY, sql.encode())
    stream, seen = PacketStream(connection), 0
    columns: int | None = None
    while True:
        stream.fill()
        if not stream.count:
            continue
        ends = _is_end(stream.payload(-1))
        if columns is None:
            columns = _column_count(stream)
        # One packet with the column count, one per column, one that ends the column list; then rows.
        over = ends and seen + stream.count > columns + 2
        if not over and (seen + stream.count <= columns + 2 or stream.size < block_bytes):
            continue
        packets = stream.take()
        header = max(0, columns + 2 - seen)
        seen += len(packets.starts)
        yield _rows(packets, header, columns, over=over)
        if over:
            return


def _is_end(payload: memoryview) -> bool:
    return payload[0] == 0xFF or (payload[0] == 0xFE and len(payload) < 9)


def _column_count(stream: PacketStream) -> int:
    first = bytes(stream.payload(0))
    if first[0] == 0xFF:
        raise _error(first)
    return Reader(first).packed()


def _rows(packets: Packets, header: int, columns: int, *, over: bool) -> RowBlock:
    start, end = packets.starts[header:], packets.ends[header:]
    if over:
        payload = bytes(packets.raw[packets.starts[-1] : packets.ends[-1]])
        if payload[0] == 0xFF:
            raise _error(payload)
        start, end = start[:-1], end[:-1]
    return RowBlock(np.frombuffer(packets.raw, np.uint8), start, end, columns)


def _error(payload: bytes) -> pymysql.MySQLError:
    code = int.from_bytes(payload[1:3], "little")
    text = payload[3:].decode("utf-8", "replace")
    return pymysql.OperationalError(code, text[6:] if text.startswith("#") else text)
