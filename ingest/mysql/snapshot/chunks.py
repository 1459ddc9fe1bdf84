"""Cutting of a table into chunks by its key, a few at a time: a table of any size is planned while it is being read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from penstock.errors import ConfigError
from penstock.ingest.mysql.definition import INTEGER_BYTES, NETWORK_BYTES, TEMPORAL
from penstock.ingest.mysql.server.catalog import definitions, quoted, unique_keys
from penstock.ingest.mysql.server.connection import ask, server_facts
from penstock.ingest.mysql.snapshot.chunk import Chunk, ChunkCursor, ChunkOptions, Literals, key_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ingest.mysql.definition import MySqlType, TableDefinition
    from penstock.ingest.mysql.server.catalog import MySqlTableFacts
    from penstock.ingest.mysql.server.connection import Connection, Row

# Excluded: floats differ from their text; ENUM, SET and BIT are ordered by number but compared as text.
_CHUNKABLE = frozenset(
    {*INTEGER_BYTES, *TEMPORAL, *NETWORK_BYTES, "decimal", "year", "char", "varchar", "binary", "varbinary"}
)
_CROWDED = 8  # a chunk is crowded if it has this many times the requested rows
_PLAIN_LITERALS = frozenset({*INTEGER_BYTES, "decimal", "year"})


def start_chunks(connection: Connection, table: MySqlTableFacts, options: ChunkOptions) -> ChunkCursor:
    """Return the cursor before the first chunk. Without a usable key the whole table is one chunk."""
    definition = definitions(connection, [table.name]).get(table.name)
    if definition is None:
        raise ConfigError(
            "the table does not exist",
            table=".".join(table.name),
            hint="leave the table out, or create it on the server",
        )
    key = _chunk_key(definition, unique_keys(connection, table.name))
    rows = options.rows
    if table.bytes_a_row:
        rows = max(1, min(rows, options.bytes // table.bytes_a_row))
    if not key:
        return ChunkCursor(table.database, table.table, (), "whole", 0, estimate=1)
    # Each bound of walked chunks needs a query; bounds of even chunks do not.
    step = _even_step(connection, definition, key, max(table.rows, 1), rows, options)
    way: Literal["even", "walk"] = "walk" if step is None else "even"
    estimate = max(1, -(-table.rows // rows))
    return ChunkCursor(table.database, table.table, key, way, step or rows, estimate=estimate, rows=rows)


def _chunk_key(definition: TableDefinition, keys: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the longest prefix of the best key whose columns can be compared with literals."""
    for key in keys:
        head: list[str] = []
        for name in key:
            column = definition.column(name)
            if column is None or column.type.base not in _CHUNKABLE:
                break
            head.append(name)
        if head:
            return tuple(head)
    return ()


def _even_step(
    connection: Connection,
    definition: TableDefinition,
    key: tuple[str, ...],
    table_rows: int,
    chunk_rows: int,
    options: ChunkOptions,
) -> int | None:
    """Return the key distance of chunks of about `chunk_rows`, None unless an integer key is spread evenly enough."""
    column = definition.column(key[0])
    if len(key) != 1 or column is None or column.type.base not in INTEGER_BYTES:
        return None
    least, greatest = _extremes(connection, definition.database, definition.table, key[0])
    if least is None or greatest is None:
        return None
    distance = (greatest - least + 1) / table_rows
    if not options.even_from <= distance <= options.even_to:
        return None
    # A distance below 1 is due to an estimate that is too high: integer keys cannot be closer than 1.
    return max(1, int(chunk_rows * max(distance, 1.0)))


def _extremes(connection: Connection, database: str, table: str, key: str) -> tuple[int | None, int | None]:
    name = quoted(key)
    row = ask(connection, f"SELECT MIN({name}), MAX({name}) FROM {quoted(database)}.{quoted(table)}")[0]
    return row[0], row[1]


def next_chunks(connection: Connection, cursor: ChunkCursor, count: int) -> tuple[list[Chunk], ChunkCursor]:
    """Return up to `count` further chunks, and the cursor after them.

    Record the binlog position before the call: rows inserted after that position arrive through the binlog, however the
    chunks are cut. Called again with the same cursor, the chunks may differ but are equally valid.
    """
    if cursor.done:
        return [], cursor
    match cursor.way:
        case "whole":
            chunk = Chunk(cursor.database, cursor.table, cursor.number, is_last=True, where=cursor.where)
            return [chunk], replace(cursor, number=cursor.number + 1, done=True)
        case "even":
            return _even_chunks(connection, cursor, count)
    return _scanned_chunks(connection, cursor, count)


def _even_chunks(connection: Connection, cursor: ChunkCursor, count: int) -> tuple[list[Chunk], ChunkCursor]:
    # Looked up for every batch: the table may have grown or shrunk since its first chunks were cut.
    least, greatest = _extremes(connection, cursor.database, cursor.table, cursor.key[0])
    if least is None or greatest is None:
        return _last(cursor, cursor.lower)
    chunks: list[Chunk] = []
    # The lower bound is exclusive.
    low = int(cursor.lower[0]) if cursor.lower else least - 1
    # A chunk that spans fewer keys cannot contain that many rows.
    explain = _explain(connection) if 0 < _CROWDED * cursor.rows < cursor.step else ""
    while len(chunks) < count:
        high = low + cursor.step
        if explain and _believed(connection, explain, cursor, min(high, greatest)) > _CROWDED * cursor.rows:
            scanned = replace(cursor, way="walk", step=cursor.rows)
            later, end = _scanned_chunks(connection, scanned, count - len(chunks))
            return [*chunks, *later], end
        if high >= greatest:
            last, end = _last(cursor, (str(max(greatest, low)),))
            return [*chunks, *last], end
        chunks.append(_chunk(cursor, (str(high),)))
        cursor, low = replace(cursor, number=cursor.number + 1, lower=(str(high),)), high
    return chunks, cursor


def _explain(connection: Connection) -> str:
    # MySQL has a setting for the default format, and `_believed` reads columns by their number.
    return "EXPLAIN" if server_facts(connection).is_mariadb else "EXPLAIN FORMAT=TRADITIONAL"


def _believed(connection: Connection, explain: str, cursor: ChunkCursor, high: int) -> int:
    """Return the server's estimate of the rows in the chunk that would end there, which costs two index lookups."""
    table = f"{quoted(cursor.database)}.{quoted(cursor.table)}"
    condition = _chunk(cursor, (str(high),)).condition
    plan = ask(connection, f"{explain} SELECT {quoted(cursor.key[0])} FROM {table} WHERE {condition}")[0]
    # The column `rows`: MySQL has a column `partitions` before it.
    return int(plan[8 if explain == "EXPLAIN" else 9] or 0)


def _scanned_chunks(connection: Connection, cursor: ChunkCursor, count: int) -> tuple[list[Chunk], ChunkCursor]:
    definition = definitions(connection, [(cursor.database, cursor.table)]).get((cursor.database, cursor.table))
    if definition is None:
        return _last(cursor, cursor.lower)
    kinds = [column.type for name in cursor.key if (column := definition.column(name)) is not None]
    if len(kinds) != len(cursor.key):
        # The key was changed in the meantime: the rest is read in one piece.
        return _last(cursor, None)
    chunks: list[Chunk] = []
    while len(chunks) < count:
        bound = _bound(connection, cursor, kinds, cursor.step)
        if bound is None:
            last, end = _last(cursor, _bound(connection, cursor, kinds, None) or cursor.lower)
            return [*chunks, *last], end
        chunks.append(_chunk(cursor, bound))
        cursor = replace(cursor, number=cursor.number + 1, lower=bound)
    return chunks, cursor


def _chunk(cursor: ChunkCursor, upper: Literals | None, *, is_last: bool = False) -> Chunk:
    key, where = cursor.key, cursor.where
    return Chunk(cursor.database, cursor.table, cursor.number, key, cursor.lower, upper, is_last, where)


def _last(cursor: ChunkCursor, upper: Literals | None) -> tuple[list[Chunk], ChunkCursor]:
    return [_chunk(cursor, upper, is_last=True)], replace(cursor, number=cursor.number + 1, done=True)


def _bound(
    connection: Connection, cursor: ChunkCursor, kinds: Sequence[MySqlType], rows: int | None
) -> Literals | None:
    """Return the key `rows` rows after the lower bound, or of the last row of the table.

    None if there is no such row.
    """
    names = [quoted(name) for name in cursor.key]
    table = f"{quoted(cursor.database)}.{quoted(cursor.table)}"
    where = f" WHERE {key_condition(cursor.key, cursor.lower, '>', '>')}" if cursor.lower else ""
    direction = " DESC" if rows is None else ""
    order = ", ".join(name + direction for name in names)
    behind = f"SELECT {', '.join(names)} FROM {table}{where} ORDER BY {order}"
    if len(names) == 1 and rows is not None:
        # Measured: half the cost of an OFFSET, 2.5 to 5 ms against 10 to 12 ms for 8,096 rows.
        text = _literal_text(f"MAX({names[0]})", kinds[0])
        found = ask(connection, f"SELECT {text} FROM ({behind} LIMIT {rows}) x HAVING COUNT(*) = {rows}")
    else:
        texts = ", ".join(_literal_text(name, kind) for name, kind in zip(names, kinds, strict=True))
        found = ask(connection, f"SELECT {texts} FROM ({behind} LIMIT {(rows or 1) - 1}, 1) x")
    return _literals(found[0], kinds) if found else None


def _literal_text(name: str, kind: MySqlType) -> str:
    # As hexadecimal digits, because the meaning of a quoted text depends on the SQL mode and the character set of the
    # session.
    if kind.base in {"char", "varchar"}:
        return f"HEX(CONVERT({name} USING utf8mb4))"
    if kind.base in {"binary", "varbinary"}:
        return f"HEX({name})"
    return f"CAST({name} AS CHAR)"


def _literals(row: Row, kinds: Sequence[MySqlType]) -> Literals:
    return tuple(_literal(str(value), kind) for value, kind in zip(row, kinds, strict=True))


def _literal(text: str, kind: MySqlType) -> str:
    if kind.base in {"char", "varchar"}:
        return f"_utf8mb4 X'{text}'"
    if kind.base in {"binary", "varbinary"}:
        return f"X'{text}'"
    return text if kind.base in _PLAIN_LITERALS else f"'{text}'"
