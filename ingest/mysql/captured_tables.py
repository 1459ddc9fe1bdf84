"""The tables of a server that a pipeline captures, what its server must provide for that, and the chunks of a batch."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pymysql

from penstock.errors import ConfigError, SourceError
from penstock.formats.demand import needed
from penstock.ingest.database.findings import ServerFinding
from penstock.ingest.database.nothing_captured import nothing_captured
from penstock.ingest.database.requested_tables import emptied_by, requested_parts, requested_tables, with_refused_names
from penstock.ingest.database.settings import MAX_CHUNKS, CapturedTables
from penstock.ingest.database.table_parts import PartRead, TablePart, accepted_parts, check_key
from penstock.ingest.mysql.definition import TableDefinition, schema_of
from penstock.ingest.mysql.errors import NoUsableKey
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.catalog import (
    SYSTEM_VERSIONED,
    MySqlTableFacts,
    TableName,
    definitions,
    list_tables,
    qualified,
)
from penstock.ingest.mysql.server.checks import check_source
from penstock.ingest.mysql.server.connection import ask
from penstock.ingest.mysql.server.refusals import refused
from penstock.ingest.mysql.server.table_checks import CheckedPlan
from penstock.ingest.mysql.settings import FollowSettings
from penstock.ingest.mysql.snapshot.chunk import Chunk, ChunkCursor
from penstock.ingest.mysql.snapshot.chunks import next_chunks, start_chunks
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, check_selected
from penstock.ingest.source import Limit

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection


log = logging.getLogger(__name__)

_NOTHING_SELECTED = (
    "names are regular expressions that match the whole; tables that the user may not SELECT are not seen, nor are such"
    " columns; one without key needs --primary-keys or --include-keyless append"
)
_NOTHING_SEEN = "GRANT SELECT on the tables to the user: tables that the user may not SELECT are not seen"


def findings(connection: Connection, settings: FollowSettings) -> list[ServerFinding]:
    """Return the problems that prevent or endanger capturing these tables."""
    tables = [table.name for table in captured_facts(connection, settings)]
    first, last = settings.server_ids
    reads = settings.reads_tables
    wanted = CheckedPlan(tables, range(first, last + 1), snapshot=reads, demand=settings.demand, zone=settings.zone)
    return [*check_source(connection, wanted), *_versioned(connection, settings)]


def captured_facts(connection: Connection, settings: FollowSettings) -> list[MySqlTableFacts]:
    """Return the tables that exist now and are captured."""
    selected = [table for table in list_tables(connection) if settings.tables.includes(table.database, table.table)]
    return [table for table in selected if table.has_primary_key or settings.keyless]


def keyless_tables(connection: Connection, settings: FollowSettings) -> list[TableName]:
    """Return the selected tables that are left out because they have no primary key."""
    selected = captured_facts(connection, replace(settings, keyless=True))
    return [] if settings.keyless else [table.name for table in selected if not table.has_primary_key]


def _versioned(connection: Connection, settings: FollowSettings) -> Iterator[ServerFinding]:
    """Yield findings for MariaDB's system-versioned tables.

    Their binlog shows rows of the past as if they were current.
    """
    for table in list_tables(connection, [SYSTEM_VERSIONED]):
        if settings.tables.includes(*table.name):
            fix = f"ALTER TABLE {qualified(table.name)} DROP SYSTEM VERSIONING;  -- or leave it out by name"
            message = f"{'.'.join(table.name)} keeps the rows of its past, and is left out"
            yield ServerFinding(SourceError, "warning", message, table.kind.lower(), "a table of present rows", fix)


def captured(connection: Connection, settings: FollowSettings, *, must: bool = True) -> list[TableDefinition]:
    """Return the definitions of the tables to capture, in catalog order.

    With `must`, no captured table is a ConfigError. A resumed pipeline passes must=False: the binlog may still explain
    why its tables are gone.
    """
    _check_letters(connection, settings.tables)
    names = [table.name for table in captured_facts(connection, settings)]
    left = [".".join(name) for name in keyless_tables(connection, settings)]
    if left and settings.keyless_stops:
        raise NoUsableKey(
            "some of the tables to capture have no primary key",
            tables=", ".join(left),
            hint="ALTER TABLE ... ADD PRIMARY KEY, leave them out of the tables, or  no-primary-key: append",
        )
    if left:
        log.warning("event=tables_without_key left_out=%s", ",".join(left))
    if not names and not must:
        log.warning("event=no_tables_there databases=%s tables=%s", settings.tables.databases, settings.tables.tables)
    if not names and must:
        seen = [table.name for table in list_tables(connection)]
        raise nothing_captured(settings.tables, seen, left, _NOTHING_SELECTED if seen else _NOTHING_SEEN)
    found = definitions(connection, names)
    return [found[name] for name in names if name in found]


def _check_letters(connection: Connection, tables: CapturedTables) -> None:
    """Raise ConfigError when an expression has capital letters but the server keeps names in lower case.

    It would match nothing, and tables that it should exclude would be captured.
    """
    if str(ask(connection, "SELECT @@GLOBAL.lower_case_table_names")[0][0]) != "1":
        return
    for part in fields(tables):
        pattern = getattr(tables, part.name)
        # A capital letter after a backslash is a class of characters, as in \S, and not part of a name.
        letters = re.sub(r"\\.", "", pattern) if isinstance(pattern, str) else ""
        if letters != letters.lower():
            raise ConfigError(
                "this server keeps names of databases and tables in lower case (lower_case_table_names = 1)",
                expression=pattern,
                hint="write the names of databases and tables in lower case",
            )


def with_requests(
    settings: FollowSettings, connection: Connection, progress: Progress
) -> tuple[Progress, list[TableName]]:
    """Return the state in which the tables, and parts of tables, that users requested are read again.

    The second value are those of the tables whose targets have to be emptied first.
    """
    emptied: list[TableName] = []
    requests = settings.requests.pending(progress.signals)
    if requests:
        names = [table.name for table in captured_facts(connection, settings)]
        progress = progress.reading(requested_tables(requests, names))
        emptied = emptied_by(requests, names)
        wanted = requested_parts(requests, names)
        parts, refusals = accepted_parts(wanted, lambda part: _check_part(connection, settings, part))
        progress = replace(progress.reading_parts(parts), refused=with_refused_names(requests, names, refusals))
    return replace(progress, signals=tuple(request.name for request in requests)), emptied


def _check_part(connection: Connection, settings: FollowSettings, part: TablePart) -> None:
    """Raise ConfigError or SourceError if a part of a table cannot be read by its condition."""
    definition = definitions(connection, [part.name]).get(part.name)
    schema = check_key(None if definition is None else schema_of(definition), part)
    policy = PartRead(settings.language, part.where).demand(settings.demand)
    needed(policy, schema)
    if definition is not None:
        try:
            check_selected(connection, definition, SnapshotOptions(demand=policy, zone=settings.zone))
        except pymysql.MySQLError as error:
            raise refused(error, settings.server) from error


def with_chunks(
    settings: FollowSettings, connection: Connection, progress: Progress, limit: Limit, at: LogPosition
) -> Progress:
    """Cut chunks until the batch is full. The binlog position must be determined before the chunks are read."""
    rows = limit.rows or settings.snapshot_rows
    size = limit.bytes or 1 << 40
    facts = {table.name: table for table in captured_facts(connection, settings)}
    chunks: list[Chunk] = []
    waiting, cursors = sorted(progress.waiting, key=settings.rank), list(progress.cursors)
    parts = list(progress.parts)
    while rows > 0 and size > 0 and len(chunks) < MAX_CHUNKS and (cursors or waiting or parts):
        if not cursors:
            name, where = (waiting.pop(0), "") if waiting else (parts[0].name, parts.pop(0).where)
            table = facts.get(name)
            # Dropped in the meantime: the binlog reports it.
            if table is None:
                continue
            cursors.append(replace(start_chunks(connection, table, settings.chunks), where=where))
        elif (cursors[0].database, cursors[0].table) not in facts:
            # The table was dropped while its chunks were cut.
            cursors = []
            continue
        # An estimate: the bounds of chunks are values of the key, and how many rows are between them is known only
        # when they are read.
        a_chunk = _rows_a_chunk(cursors[0], settings.chunks.rows, facts)
        wanted = max(1, min(MAX_CHUNKS - len(chunks), rows // a_chunk))
        found, cursor = next_chunks(connection, cursors[0], wanted)
        chunks += found
        cursors = [] if cursor.done else [cursor]
        rows -= a_chunk * len(found)
        size -= a_chunk * len(found) * max(1, _bytes_a_row(cursor, facts))
    exact = settings.snapshot == "exact"
    batch = replace(progress.batch, chunks=tuple(chunks), as_of=at if exact else None)
    # Exact chunks are as of the position of the pipeline itself: the tables need not settle.
    over = not cursors and not waiting and not parts and not exact
    copies = replace(progress, waiting=tuple(waiting), parts=tuple(parts), cursors=tuple(cursors))
    return replace(copies, unsettled=over, batch=batch)


def _rows_a_chunk(cursor: ChunkCursor, rows: int, facts: dict[TableName, MySqlTableFacts]) -> int:
    table = facts.get((cursor.database, cursor.table))
    if table is None:
        return rows
    return max(1, min(rows, table.rows // max(1, cursor.estimate)))


def _bytes_a_row(cursor: ChunkCursor, facts: dict[TableName, MySqlTableFacts]) -> int:
    table = facts.get((cursor.database, cursor.table))
    return table.bytes_a_row if table else 1
