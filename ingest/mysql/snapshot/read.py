"""Reading of table chunks as change batches, from rows of the text protocol."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pymysql

from penstock.formats.change import ChangeBatch
from penstock.formats.demand import Demand, DemandPolicy, needed
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.database.sql_conditions import described, where
from penstock.ingest.mysql.definition import schema_of
from penstock.ingest.mysql.server.catalog import definitions, quoted
from penstock.ingest.mysql.server.connection import ask, connect
from penstock.ingest.mysql.server.refusals import is_lost, lost_reason, refused
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.columns import column_of, expression
from penstock.ingest.mysql.snapshot.conditions import MySqlConditions
from penstock.ingest.mysql.snapshot.text_rows import RowBlock, select
from penstock.ingest.mysql.values.rules import CellContext, ValueRules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.ingest.mysql.definition import TableDefinition
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.server.connection import Connection


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
    server: ServerAddress,
    chunk: Chunk,
    options: SnapshotOptions,
    oddities: Counter[str] | None = None,
    check: Callable[[Connection], None] = lambda _: None,
) -> Iterator[ChangeBatch]:
    """Yield the chunk's current rows, as inserts, over a separate connection, which has to pass the check.

    The rows have the columns of the current table, and are consistent within one statement. A table that was dropped in
    the meantime yields nothing: the binlog reports the drop. Called again it reads again, possibly newer rows. Holds
    one block in memory.
    """
    connection = connect(server)
    try:
        check(connection)
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
