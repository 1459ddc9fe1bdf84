"""Rows of the text protocol: the result of a SELECT in blocks, and the cells of each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pymysql

from penstock.byte_buffers import gathered_rows
from penstock.ingest.database.buffers import repeated, unsigned_at
from penstock.ingest.database.cells import Cells
from penstock.ingest.mysql.server.wire import PacketStream, PayloadReader, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.byte_buffers import Bytes, Int64s
    from penstock.ingest.mysql.server.connection import Connection
    from penstock.ingest.mysql.server.wire import Packets

_QUERY = 0x03
_NULL = 0xFB
# First bytes of a cell that are read with its length: enough for a DATETIME(6) whose fraction is read in one word, and
# for the longest number.
HEAD = 28
_VIEW_LENGTH, _VIEW_CONTENT = 4, 12
# Marks of longer lengths, and the bytes that follow them.
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

    def cells(self) -> Iterator[Cells]:
        """Yield the cells, column by column; ValueError if a row does not end with its last cell."""
        # One step reads one column of all rows, because a cell begins where the previous one ends. The first bytes of
        # the cell are read together with its length, at no extra cost.
        at = self.start
        # Arrow refers to a short text by its length in four bytes and its content: one more byte is before the length.
        before = _VIEW_LENGTH - 1 if len(at) and int(at[0]) >= _VIEW_LENGTH else 0
        present = repeated(value=False, count=len(at))
        for _ in range(self.columns):
            window = gathered_rows(self.data, at - before, before + 1 + HEAD)
            first, head = np.ascontiguousarray(window[:, before]), window[:, before + 1 :]
            start, length, null = at + 1, first.astype(np.int64), present
            highest = first.max(initial=0)
            is_long = highest > _NULL
            if highest >= _NULL:
                null = first == _NULL
                length[null] = 0
            for mark, width in _LONG_LENGTHS.items() if is_long else ():
                long = np.flatnonzero(first == mark)
                if len(long):
                    # The top byte of an eight-byte length is zero: no cell is that long.
                    length[long] = unsigned_at(self.data, at[long] + 1, min(width, 7))
                    start[long] += width
            at = start + length
            view = window[:, : _VIEW_LENGTH + _VIEW_CONTENT] if before and not is_long else None
            yield Cells(self.data, start, length, null, None if is_long else head, view)
        if (at != self.end).any():
            raise ValueError("a row of the result is longer than its last column")


def select(connection: Connection, sql: str, block_bytes: int) -> Iterator[RowBlock]:
    """Yield the rows of a SELECT in blocks of about `block_bytes`; the connection is free again after the last block.

    If the caller stops early, the connection is not usable any more and must be closed.
    """
    command(connection, _QUERY, sql.encode())
    stream, seen = PacketStream(connection, block_bytes, of_texts=True), 0
    columns: int | None = None
    while True:
        stream.fill()
        if not stream.count:
            continue
        ends = _is_end(stream.last)
        if columns is None:
            columns = _column_count(stream)
        # One packet with the column count, one per column, one that ends the column list; then rows.
        over = ends and seen + stream.count > columns + 2
        if not over and (seen + stream.count <= columns + 2 or stream.size < block_bytes):
            continue
        packets = stream.pop_packets()
        header = max(0, columns + 2 - seen)
        seen += len(packets.starts)
        yield _rows(packets, header, columns, over=over)
        if over:
            return


def _is_end(payload: memoryview) -> bool:
    # 0xFE also begins a cell of 16 MiB or more, but the packet that ends a result is short.
    return payload[0] == 0xFF or (payload[0] == 0xFE and len(payload) < 9)


def _column_count(stream: PacketStream) -> int:
    first = bytes(stream.first)
    if first[0] == 0xFF:
        raise _error(first)
    return PayloadReader(first).packed()


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
