"""Reading of table chunks as change batches, from rows of the text protocol."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pymysql

from penstock.byte_buffers import gathered_rows
from penstock.formats.change import ChangeBatch
from penstock.formats.demand import Demand, DemandPolicy, needed
from penstock.ingest.database.buffers import unsigned_at
from penstock.ingest.database.cells import Cells
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.database.sql_conditions import described, where
from penstock.ingest.mysql.definition import schema_of
from penstock.ingest.mysql.server.catalog import definitions, quoted
from penstock.ingest.mysql.server.connection import ask, connect
from penstock.ingest.mysql.server.refusals import is_lost, lost_reason, refused
from penstock.ingest.mysql.server.wire import PacketStream, PayloadReader, command
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.columns import column_of, expression
from penstock.ingest.mysql.snapshot.conditions import MySqlConditions
from penstock.ingest.mysql.values.rules import CellContext, ValueRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.byte_buffers import Bytes, Int64s
    from penstock.ingest.mysql.definition import TableDefinition
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.catalog import TableName
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
        for _ in range(self.columns):
            window = gathered_rows(self.data, at - before, before + 1 + HEAD)
            first, head = window[:, before], window[:, before + 1 :]
            null = first == _NULL
            start, length = at + 1, np.where(null, 0, first).astype(np.int64)
            is_long = (first > _NULL).any()
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
    stream, seen = PacketStream(connection, block_bytes), 0
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
    first = bytes(stream.payload(0))
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


BLOCK_BYTES = 8 << 20
_NO_SUCH_COLUMN, _NO_SUCH_TABLE = 1054, 1146


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """The rules for odd values, the size of a block, and which part of a table is read.

    The condition of `demand` compares TIMESTAMP columns in `zone`.
    """

    rules: ValueRules = field(default_factory=ValueRules)
    block_bytes: int = BLOCK_BYTES
    demand: DemandPolicy | None = None
    zone: str = "UTC"


def read_chunk(
    server: ServerAddress, chunk: Chunk, options: SnapshotOptions, oddities: Counter[str] | None = None
) -> Iterator[ChangeBatch]:
    """Yield the chunk's current rows, as inserts, over a separate connection.

    The rows have the columns of the current table, and are consistent within one statement. A table that was dropped in
    the meantime yields nothing: the binlog reports the drop. Called again it reads again, possibly newer rows. Holds
    one block in memory.
    """
    connection = connect(server)
    try:
        yield from chunk_batches(connection, chunk, options, oddities)
    except pymysql.MySQLError as error:
        if is_lost(error):
            raise ConnectionLost(
                "the connection to the MySQL server was lost while a chunk of a table was read",
                retryable=True,
                server=f"{server.host}:{server.port}",
                table=f"{chunk.database}.{chunk.table}",
                chunk=chunk.number,
                reason=lost_reason(error),
            ) from error
        raise refused(error, server, connection) from error
    finally:
        connection.close()


def chunk_batches(
    connection: Connection, chunk: Chunk, options: SnapshotOptions, oddities: Counter[str] | None = None
) -> Iterator[ChangeBatch]:
    """Yield the chunk's current rows on a given connection, within the transaction that it is in."""
    counts: Counter[str] = Counter() if oddities is None else oddities
    for attempt in range(3):
        name = (chunk.database, chunk.table)
        definition = definitions(connection, [name]).get(name)
        if definition is None:
            return
        demand, condition = _selected(definition, options.demand, options.zone)
        definition = replace(
            definition, columns=tuple(column for column in definition.columns if demand.includes(column.name))
        )
        started = False
        try:
            row = 0
            for block in select(connection, _statement(definition, chunk, condition), options.block_bytes):
                started = True
                if len(block):
                    yield _batch(block, definition, row, options.rules, counts)
                    row += len(block)
            return
        except pymysql.MySQLError as error:
            # The table was altered or dropped between the lookup of its columns and the statement: look them up again.
            if started or attempt == 2 or error.args[0] not in {_NO_SUCH_COLUMN, _NO_SUCH_TABLE}:
                raise


def _selected(definition: TableDefinition, policy: DemandPolicy | None, zone: str) -> tuple[Demand, str | None]:
    """Return which part of a table is needed, and the condition that the server evaluates."""
    demand = needed(policy, schema_of(definition))
    types = {column.name: column.type for column in definition.columns}
    return demand, where(demand.condition, MySqlConditions(types, zone))


def check_selected(connection: Connection, definition: TableDefinition, options: SnapshotOptions) -> None:
    """Raise SourceError if the server does not let the user select the part of the table that is needed."""
    demand, condition = _selected(definition, options.demand, options.zone)
    definition = replace(
        definition, columns=tuple(column for column in definition.columns if demand.includes(column.name))
    )
    whole = Chunk(definition.database, definition.table, 0)
    ask(connection, f"{_statement(definition, whole, condition)} LIMIT 0")


def selections(
    definitions: Iterable[TableDefinition], policy: DemandPolicy | None, zone: str
) -> dict[TableName, tuple[str, ...]]:
    """Return descriptions of the selected part of each table that is not read as a whole."""
    parts = {
        (definition.database, definition.table): (definition, *_selected(definition, policy, zone))
        for definition in definitions
    }
    found = {
        name: described(demand, len(table.columns), condition) for name, (table, demand, condition) in parts.items()
    }
    return {name: lines for name, lines in found.items() if lines}


def _statement(definition: TableDefinition, chunk: Chunk, condition: str | None) -> str:
    columns = ", ".join(expression(quoted(column.name), column.type) for column in definition.columns)
    # The condition is no part of the chunk: whether a key belongs to the chunk does not depend on it.
    rows = chunk.condition if condition is None else f"({chunk.condition}) AND {condition}"
    return f"SELECT {columns} FROM {quoted(chunk.database)}.{quoted(chunk.table)} WHERE {rows}"


def _batch(
    block: RowBlock, definition: TableDefinition, first_row: int, rules: ValueRules, counts: Counter[str]
) -> ChangeBatch:
    arrays = []
    for column, texts in zip(definition.columns, block.cells(), strict=True):
        cells = CellContext(column, definition.qualified, rules, counts, definition.has_in_key(column.name))
        arrays.append(column_of(texts, cells))
    rows = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in definition.columns])
    return ChangeBatch.inserts(schema_of(definition), rows, first_row)
