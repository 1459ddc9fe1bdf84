"""Reading of chunks of tables as inserts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch
from penstock.ingest.postgres.server.catalog import qualified, quoted, relations
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.snapshot.copy_rows import cells_of, rows_of
from penstock.ingest.postgres.values.binary import binary_column
from penstock.ingest.postgres.values.text import text_column

if TYPE_CHECKING:
    from penstock.ingest.postgres.relation import Relation
    from penstock.ingest.postgres.server.address import PgAddress
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.snapshot.chunks import KeyChunk

BLOCK_BYTES = 8 << 20
_NO_SUCH_COLUMN, _NO_SUCH_TABLE = "42703", "42P01"


def read_chunk(server: PgAddress, chunk: KeyChunk, oddities: Counter[str]) -> Iterator[ChangeBatch]:
    """Yield the chunk's current rows over a separate connection, consistent within one statement.

    The columns are those of the table now. A table that was dropped in the meantime yields nothing. Holds one block in
    memory.
    """
    with connected(server) as connection:
        for attempt in range(3):
            relation = relations(connection, [chunk.oid]).get(chunk.oid)
            if relation is None:
                return
            started = False
            try:
                for batch in _batches(connection, chunk, relation, oddities):
                    started = True
                    yield batch
                return
            except SourceError as error:
                # The table was altered between the lookup of its columns and the statement: look them up again.
                altered = error.facts.get("sqlstate") in {_NO_SUCH_COLUMN, _NO_SUCH_TABLE}
                if started or attempt == 2 or not altered:
                    raise


def _batches(
    connection: PgConnection, chunk: KeyChunk, relation: Relation, oddities: Counter[str]
) -> Iterator[ChangeBatch]:
    row = 0
    for block in connection.copied(_statement(connection, chunk, relation), BLOCK_BYTES):
        messages = rows_of(block)
        if not messages:
            continue
        arrays = [
            (binary_column if one.type.is_binary else text_column)(cells, one.type, oddities)
            for one, cells in zip(relation.columns, cells_of(messages, len(relation.columns)), strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, names=[one.name for one in relation.columns])
        yield ChangeBatch.inserts(relation.source_schema, rows, row)
        row += len(messages)


def _statement(connection: PgConnection, chunk: KeyChunk, relation: Relation) -> str:
    # Columns are named: `*` would also select generated columns, which the log does not contain.
    columns = (f"{quoted(one.name)}{'' if one.type.is_binary else '::text'}" for one in relation.columns)
    return f"SELECT {', '.join(columns)} FROM {qualified(relation.name)} WHERE {chunk.condition(connection)}"
