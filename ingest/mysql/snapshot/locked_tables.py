"""Tables as of one position in one transaction, for tables without a key, to which binlog changes cannot be applied."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog.resume import latest
from penstock.ingest.mysql.server.connection import ask, connected, server_facts
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, chunk_batches

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from penstock.formats.change import ChangeBatch
    from penstock.ingest.mysql.position import LogPosition
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.server.connection import Connection


@contextmanager
def one_moment(server: ServerAddress) -> Iterator[tuple[Connection, LogPosition]]:
    """Open a connection that sees all tables as of the returned position; it is closed at the end of the context.

    FLUSH TABLES WITH READ LOCK (needs RELOAD) blocks writers only while snapshot and position are determined, not while
    the tables are read. Only transactional tables keep that state.
    """
    with connected(server) as reader:
        ask(reader, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with connected(server) as locker:
            ask(locker, "FLUSH TABLES WITH READ LOCK")
            ask(reader, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            position = latest(locker, server_facts(locker))
            ask(locker, "UNLOCK TABLES")
        yield reader, position


def read_locked(
    connection: Connection, names: Sequence[TableName], options: SnapshotOptions, oddities: Counter[str] | None = None
) -> Iterator[ChangeBatch]:
    """Yield all rows of these tables, one table after another, on a connection of `one_moment`."""
    for database, table in names:
        yield from chunk_batches(connection, Chunk(database, table, 0, is_last=True), options, oddities)
