"""Reading of table chunks as change batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pymysql

from penstock.formats.change import ChangeBatch
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.mysql.definition import schema_of
from penstock.ingest.mysql.server.catalog import definitions, quoted
from penstock.ingest.mysql.server.connection import connect, refused
from penstock.ingest.mysql.snapshot.columns import column_of, expression
from penstock.ingest.mysql.snapshot.text_rows import select
from penstock.ingest.mysql.values.rules import CellContext, ValueRules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ingest.mysql.definition import TableDefinition
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection
    from penstock.ingest.mysql.snapshot.chunk import Chunk
    from penstock.ingest.mysql.snapshot.text_rows import RowBlock

BLOCK_BYTES = 8 << 20
_NO_SUCH_COLUMN, _NO_SUCH_TABLE = 1054, 1146


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """The rules for odd values and the size of a block."""

    rules: ValueRules = field(default_factory=ValueRules)
    block_bytes: int = BLOCK_BYTES


def read_chunk(
    server: ServerAddress, chunk: Chunk, options: SnapshotOptions, oddities: Counter[str] | None = None
) -> Iterator[ChangeBatch]:
    """Yield the chunk's current rows, as inserts, over a separate connection.

    The columns are those of the current table, consistent within one statement. A table that was dropped in the
    meantime yields nothing: the binlog reports the drop. Called again it reads again, possibly newer rows. Holds one
    block in memory.
    """
    connection = connect(server)
    try:
        yield from chunk_batches(connection, chunk, options, oddities)
    except pymysql.MySQLError as error:
        raise refused(error, server) from error
    except OSError as error:
        raise ConnectionLost(
            "the connection to the MySQL server was lost", retryable=True, chunk=chunk, reason=str(error)
        ) from error
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
        started = False
        try:
            row = 0
            for block in select(connection, _statement(definition, chunk), options.block_bytes):
                started = True
                if len(block):
                    yield _batch(block, definition, row, options.rules, counts)
                    row += len(block)
            return
        except pymysql.MySQLError as error:
            # The table was altered or dropped between the lookup of its columns and the statement: look them up again.
            if started or attempt == 2 or error.args[0] not in {_NO_SUCH_COLUMN, _NO_SUCH_TABLE}:
                raise


def _statement(definition: TableDefinition, chunk: Chunk) -> str:
    columns = ", ".join(expression(quoted(column.name), column.type) for column in definition.columns)
    return f"SELECT {columns} FROM {quoted(chunk.database)}.{quoted(chunk.table)} WHERE {chunk.condition}"


def _batch(
    block: RowBlock, definition: TableDefinition, first_row: int, rules: ValueRules, counts: Counter[str]
) -> ChangeBatch:
    arrays = []
    for column, (start, length, null) in zip(definition.columns, block.cells(), strict=True):
        cells = CellContext(column, definition.qualified, rules, counts, definition.has_in_key(column.name))
        arrays.append(column_of(block.data, start, length, null, cells))
    rows = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in definition.columns])
    return ChangeBatch.inserts(schema_of(definition), rows, first_row)
