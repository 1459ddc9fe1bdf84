"""A chunk as of a fixed earlier binlog position: the current rows are read, and later changes are undone.

So the rows of a chunk are the same, however often and however late they are read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pymysql
from pymysql.constants import ER

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch, ImageRule
from penstock.ingest.database.past_rows import keys_before, rows_before
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.server_positions import latest, settled, snapshot_position
from penstock.ingest.mysql.errors import BinlogReset
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.connection import ask, connected, server_facts
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.logged_changes import changes_between, in_chunk
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, chunk_batches
from penstock.ingest.mysql.table_choice import TheseTables

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection

_TRIES = 3
_LOCK_S, _PAUSE_S = 5, 5.0  # how long the lock may block writers, and the pause until the next try
Changes = Callable[[LogPosition, LogPosition], list[ChangeBatch]]


def read_as_of(
    server: ServerAddress,
    chunk: Chunk,
    at: LogPosition,
    snapshot: SnapshotOptions,
    log: BinlogOptions,
    server_id: int,
    oddities: Counter[str] | None = None,
    check: Callable[[Connection], None] = lambda _: None,
) -> Iterator[ChangeBatch]:
    """Yield the chunk's rows as of `at`, as inserts, over a connection that has to pass the check.

    The binlog from there on must still exist on the server. Holds the chunk, and the changes of its table since `at`,
    in memory. It has the columns of the current table; a column that did not exist at `at` is null.
    """
    # Without the upper bound: rows after the greatest key of the plan may have been there at `at`, and are gone now.
    chunk = chunk.open_end
    name = (chunk.database, chunk.table)
    options = replace(log, choice=TheseTables(frozenset([name])), images={name: ImageRule("all")})

    def changes(low: LogPosition, high: LogPosition) -> list[ChangeBatch]:
        return [] if not low.is_before(high) else changes_between(server, low, high, options, server_id)

    with connected(server) as connection:
        check(connection)
        facts = server_facts(connection)
        _require_reached(latest(connection, facts), at)
        if not chunk.key:
            rows, high = _whole_table(server, chunk, snapshot, changes, server_id, oddities)
            yield from rows_before(rows, changes(at, high))
            return
        # The end of the log is looked up after the rows: every change that they may show is undone.
        rows = list(chunk_batches(connection, chunk, snapshot, oddities))
        since = changes(at, latest(connection, facts))
        yield from keys_before(rows, since, lambda keys: in_chunk(connection, chunk, keys))


def _require_reached(end: LogPosition, at: LogPosition) -> None:
    """Raise BinlogReset if the log ends before the position: it is not the log in which the chunk was planned."""
    if end.is_before(at):
        raise BinlogReset(
            "the server's binlog ends before the position as of which a table is read",
            position=at,
            end=end,
            hint="the binlog was reset, or the server was restored or is another one: connect to the former server, or "
            "read the tables again (--resnapshot)",
        )


def _whole_table(
    server: ServerAddress,
    chunk: Chunk,
    snapshot: SnapshotOptions,
    changes: Changes,
    server_id: int,
    oddities: Counter[str] | None,
) -> tuple[list[ChangeBatch], LogPosition]:
    """Return the rows of a table without a key, and the binlog position that they correspond to.

    MariaDB provides the position of a snapshot. On MySQL the position is known if nothing changed during the read; for
    a table that changes all the time, it is found by a lock (RELOAD).
    """
    for _ in range(_TRIES):
        with connected(server) as connection:
            facts = server_facts(connection)
            if facts.is_mariadb:
                high = snapshot_position(connection, facts, keep=True)
                return list(chunk_batches(connection, chunk, snapshot, oddities)), high
            low = settled(connection, facts, server, server_id)
            rows = list(chunk_batches(connection, chunk, snapshot, oddities))
            high = latest(connection, facts)
            if not changes(low, high):
                return rows, high
    with _one_moment(server) as (connection, high):
        return list(chunk_batches(connection, chunk, snapshot, oddities)), high


@contextmanager
def _one_moment(server: ServerAddress) -> Iterator[tuple[Connection, LogPosition]]:
    """Open a connection that sees all tables as of the returned position; it is closed at the end of the context.

    FLUSH TABLES WITH READ LOCK (needs RELOAD) blocks writers only while snapshot and position are determined, not while
    the tables are read. Only transactional tables keep that state.
    """
    with connected(server) as reader:
        ask(reader, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with connected(server) as locker:
            # Nothing is committed between this lock and its release, so the snapshot and the position are of the
            # same moment.
            _lock(locker)
            ask(reader, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            position = latest(locker, server_facts(locker))
            ask(locker, "UNLOCK TABLES")
        yield reader, position


def _lock(locker: Connection) -> None:
    """Lock all tables against changes, or raise a SourceError if a long statement runs.

    The server blocks all writers while it waits for running statements to end; its own limit is a year.
    """
    ask(locker, "SET SESSION lock_wait_timeout = %s", _LOCK_S)
    for attempt in range(_TRIES):
        time.sleep(_PAUSE_S if attempt else 0)
        try:
            ask(locker, "FLUSH TABLES WITH READ LOCK")
        except pymysql.OperationalError as error:
            if error.args[0] != ER.LOCK_WAIT_TIMEOUT:
                raise
            # The part of the lock that stops writers is held already, and stays after the error.
            ask(locker, "UNLOCK TABLES")
        else:
            return
    raise SourceError(
        "the lock for reading a table without a key was not granted: statements that run for long prevent it",
        seconds=_LOCK_S,
        tries=_TRIES,
        hint="see them with SHOW FULL PROCESSLIST, and run the pipeline when they have ended; a table with a primary "
        "key needs no lock",
        retryable=True,
    )
