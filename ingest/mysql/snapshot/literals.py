"""Keys as SQL literals that compare exactly as the columns do: same character set, same collation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ingest.mysql.errors import NoUsableKey
from penstock.ingest.mysql.server.catalog import definitions
from penstock.ingest.mysql.server.connection import ask
from penstock.ingest.mysql.types import INTEGER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from penstock.ingest.mysql.definition import MySqlColumn
    from penstock.ingest.mysql.server.connection import Connection
    from penstock.ingest.mysql.snapshot.chunk import Chunk

_KEYS_A_QUERY = 500


def key_rows(connection: Connection, chunk: Chunk, keys: pa.Table) -> Iterator[list[tuple[str, ...]]]:
    """Yield these keys, reduced to the chunk's key columns, as lists of literals, some hundred at a time."""
    definition = definitions(connection, [(chunk.database, chunk.table)]).get((chunk.database, chunk.table))
    columns = [definition.column(name) for name in chunk.key] if definition else []
    if not columns or None in columns:
        raise NoUsableKey(
            "the table's key changed while a chunk of its snapshot was read", table=chunk.table, retryable=True
        )
    collations = _collations(connection, chunk)
    spell = [_spelling(column, collations.get(column.name)) for column in columns if column is not None]
    # The keys become text of a statement, so Python objects are needed; they are few, only those that changed in the
    # binlog during the read.
    values = [keys[column.name].to_pylist() for column in columns if column is not None]
    rows = zip(*values, strict=True)
    literals = [tuple(write(one) for write, one in zip(spell, row, strict=True)) for row in rows]
    for start in range(0, len(literals), _KEYS_A_QUERY):
        yield literals[start : start + _KEYS_A_QUERY]


def _collations(connection: Connection, chunk: Chunk) -> dict[str, str]:
    rows = ask(
        connection,
        "SELECT COLUMN_NAME, COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        " AND COLLATION_NAME IS NOT NULL",
        chunk.database,
        chunk.table,
    )
    return {str(row[0]): str(row[1]) for row in rows}


def _spelling(column: MySqlColumn, collation: str | None) -> Callable[[object], str]:
    base = column.type.base
    if collation is not None:
        convert = f"CONVERT(_utf8mb4 X'%s' USING {column.charset}) COLLATE {collation}"
        return lambda value: convert % str(value).encode().hex()
    if base in {"binary", "varbinary"}:
        return lambda value: f"X'{value.hex() if isinstance(value, bytes) else ''}'"
    if base in {*INTEGER_BYTES, "decimal", "year"}:
        return str
    if base in {"datetime", "timestamp"}:
        return lambda value: f"CAST('{str(value).removesuffix('+00:00')}' AS DATETIME(6))"
    if base in {"date", "time"}:
        return lambda value: f"CAST('{value}' AS {base.upper()}{'(6)' if base == 'time' else ''})"
    return lambda value: f"'{value}'"
