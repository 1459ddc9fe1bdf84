"""The chunks of a batch: parts of the tables that are still to be read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.database.settings import MAX_CHUNKS
from penstock.ingest.mysql.captured_tables import captured_facts
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.catalog import TableFacts, TableName
from penstock.ingest.mysql.settings import FollowSettings
from penstock.ingest.mysql.snapshot.chunk import Chunk, ChunkCursor
from penstock.ingest.mysql.snapshot.chunks import next_chunks, start_chunks
from penstock.ingest.source import Limit

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection


def with_chunks(
    settings: FollowSettings, connection: Connection, progress: Progress, limit: Limit, at: LogPosition
) -> Progress:
    """Cut chunks until the batch is full. The binlog position must be determined before the chunks are read."""
    rows = limit.rows or settings.snapshot_rows
    size = limit.bytes or 1 << 40
    facts = {table.name: table for table in captured_facts(connection, settings)}
    chunks: list[Chunk] = []
    waiting, cursors = sorted(progress.waiting, key=settings.rank), list(progress.cursors)
    while rows > 0 and size > 0 and len(chunks) < MAX_CHUNKS and (cursors or waiting):
        if not cursors:
            table = facts.get(waiting.pop(0))
            if table is None:  # dropped in the meantime: the binlog reports it
                continue
            cursors.append(start_chunks(connection, table, settings.chunks))
        elif (cursors[0].database, cursors[0].table) not in facts:
            cursors = []
            continue
        a_chunk = _rows_a_chunk(cursors[0], settings.chunks.rows, facts)
        wanted = max(1, min(MAX_CHUNKS - len(chunks), rows // a_chunk))
        found, cursor = next_chunks(connection, cursors[0], wanted)
        chunks += found
        cursors = [] if cursor.done else [cursor]
        rows -= a_chunk * len(found)
        size -= a_chunk * len(found) * max(1, _bytes_a_row(cursor, facts))
    exact = settings.snapshot == "exact"
    batch = replace(progress.batch, chunks=tuple(chunks), as_of=at if exact else None)
    over = not cursors and not waiting and not exact
    return replace(progress, waiting=tuple(waiting), cursors=tuple(cursors), unsettled=over, batch=batch)


def _rows_a_chunk(cursor: ChunkCursor, rows: int, facts: dict[TableName, TableFacts]) -> int:
    table = facts.get((cursor.database, cursor.table))
    if table is None:
        return rows
    return max(1, min(rows, table.rows // max(1, cursor.estimate)))


def _bytes_a_row(cursor: ChunkCursor, facts: dict[TableName, TableFacts]) -> int:
    table = facts.get((cursor.database, cursor.table))
    return table.bytes_a_row if table else 1
