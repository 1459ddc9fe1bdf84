"""A chunk as of a fixed earlier binlog position: rows are read as they are now, and later changes are undone.

The first change of a key after the position shows the key's row at the position: no row if it was inserted, the before
image if it was updated or deleted. So the rows of a chunk are the same, however often and however late they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch, ImageRule
from penstock.ingest.mysql.binlog.options import BinlogOptions, TheseTables
from penstock.ingest.mysql.binlog.server_positions import latest, settled, snapshot_position
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.connection import ask, connected, server_facts
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.chunk_watermark import changes_between, in_chunk, log_order, row_numbers
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, chunk_batches
from penstock.row_kinds import DELETE, UPDATE_BEFORE

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bools
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.server.connection import Connection

_TRIES = 3
Changes = Callable[[LogPosition, LogPosition], list[ChangeBatch]]


def read_as_of(
    server: ServerAddress,
    chunk: Chunk,
    at: LogPosition,
    snapshot: SnapshotOptions,
    log: BinlogOptions,
    server_id: int,
    oddities: Counter[str] | None = None,
) -> Iterator[ChangeBatch]:
    """Yield the chunk's rows as of `at`, as inserts.

    The binlog from there on must still exist on the server. Holds the chunk, and the changes of its table since `at`,
    in memory. The columns are those of the current table; a column that did not exist at `at` is null.
    """
    # Without the upper bound: rows after the greatest key of the plan may have been there at `at`, and are gone now.
    chunk = chunk.open_end
    name = (chunk.database, chunk.table)
    options = replace(log, choice=TheseTables(frozenset([name])), images={name: ImageRule("all")})

    def changes(low: LogPosition, high: LogPosition) -> list[ChangeBatch]:
        return [] if not low.is_before(high) else list(changes_between(server, low, high, options, server_id))

    with connected(server) as connection:
        facts = server_facts(connection)
        if not chunk.key:
            rows, high = _whole_table(server, chunk, snapshot, changes, oddities)
            yield from rows_before(rows, changes(at, high))
            return
        # The end of the log is looked up after the rows: every change that they may show is undone.
        rows = list(chunk_batches(connection, chunk, snapshot, oddities))
        since = changes(at, latest(connection, facts))
        yield from keys_before(rows, since, lambda keys: in_chunk(connection, chunk, keys))


def keys_before(
    rows: Sequence[ChangeBatch], changes: Sequence[ChangeBatch], is_in_chunk: Callable[[pa.Table], Bools]
) -> list[ChangeBatch]:
    """Return the rows of a table with a key, with these changes undone."""
    if not changes:
        return list(rows)
    batches = _with_newest_columns([*rows, *changes])
    schema = batches[0].schema
    whole = pa.Table.from_batches([batch.rows for batch in batches]).combine_chunks()
    keys = row_numbers(whole.select(list(schema.primary_keys)))
    from_log = np.repeat([False, True], [sum(map(len, rows)), sum(map(len, changes))])
    kinds = np.concatenate([batch.kinds for batch in batches])
    touched = np.flatnonzero(from_log)
    order = touched[np.lexsort([part[touched] for part in log_order(batches)])]
    # For each key the index of its first change, -1 without changes.
    first = np.full(int(keys.max()) + 1, -1, np.int64)
    # The last assignment per key wins, which is the first change.
    first[keys[order[::-1]]] = order[::-1]
    # Rows that no change touched stay. For a touched key, the before image of its first change is the row.
    stays = ~from_log & (first[keys] < 0)
    was_there = first[(first >= 0)]
    # An insert as the first change means that the key had no row. Otherwise the before image is the row at the
    # position.
    was_there = was_there[np.isin(kinds[was_there], [DELETE, UPDATE_BEFORE])]
    in_rows = np.zeros(len(first), np.bool_)
    in_rows[keys[~from_log]] = True
    stays[was_there] = in_rows[keys[was_there]]
    # Keys that are gone now. Only the server can compare them with the bounds, by the collation of the column.
    doubtful = was_there[~in_rows[keys[was_there]]]
    if len(doubtful):
        stays[doubtful] = is_in_chunk(whole.take(pa.array(doubtful)).select(list(schema.primary_keys)))
    kept = whole.take(pa.array(np.flatnonzero(stays))).combine_chunks()
    return [ChangeBatch.inserts(batches[0].schema, batch) for batch in kept.to_batches() if len(batch)]


def rows_before(rows: Sequence[ChangeBatch], changes: Sequence[ChangeBatch]) -> list[ChangeBatch]:
    """Return the rows of a table without a key, with these changes undone.

    Each copy of a row that was written is removed once, each copy that was deleted is added once.
    """
    if not changes:
        return list(rows)
    batches = _with_newest_columns([*rows, *changes])
    whole = pa.Table.from_batches([batch.rows for batch in batches]).combine_chunks()
    numbers = row_numbers(whole)
    from_log = np.repeat([False, True], [sum(map(len, rows)), sum(map(len, changes))])
    gone = np.isin(np.concatenate([batch.kinds for batch in batches]), [DELETE, UPDATE_BEFORE])
    # Equal rows have equal numbers. A row that is there now or was deleted counts 1, a row that was written since
    # counts -1.
    counts = np.bincount(numbers, weights=np.where(~from_log | gone, 1, -1)).astype(np.int64)
    _, one_of_each = np.unique(numbers, return_index=True)
    index = np.repeat(one_of_each, np.maximum(counts, 0))
    kept = whole.take(pa.array(np.sort(index))).combine_chunks()
    return [ChangeBatch.inserts(batches[0].schema, batch) for batch in kept.to_batches() if len(batch)]


def _whole_table(
    server: ServerAddress, chunk: Chunk, snapshot: SnapshotOptions, changes: Changes, oddities: Counter[str] | None
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
            low = settled(connection, facts)
            rows = list(chunk_batches(connection, chunk, snapshot, oddities))
            high = latest(connection, facts)
            if not changes(low, high):
                return rows, high
    with one_moment(server) as (connection, high):
        return list(chunk_batches(connection, chunk, snapshot, oddities)), high


def _with_newest_columns(batches: Sequence[ChangeBatch]) -> list[ChangeBatch]:
    """Return all batches with the columns of the first, which are the newest: the table may have been altered since."""
    target = batches[0].rows.schema
    return [
        batch if batch.rows.schema == target else replace(batch, schema=batches[0].schema, rows=_cast(batch, target))
        for batch in batches
    ]


def _cast(batch: ChangeBatch, target: pa.Schema) -> pa.RecordBatch:
    known = dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True))
    try:
        columns = [
            pc.cast(known[field.name], field.type) if field.name in known else pa.nulls(len(batch), field.type)
            for field in target
        ]
    except pa.ArrowException as error:
        raise SourceError(
            "the table was altered while its snapshot was read, and its old values do not fit the new columns",
            table=f"{batch.schema.database}.{batch.schema.table}",
            reason=str(error),
            hint="restart the pipeline: it then reads the tables in their present form",
        ) from error
    return pa.RecordBatch.from_arrays(columns, schema=target)


@contextmanager
def one_moment(server: ServerAddress) -> Iterator[tuple[Connection, LogPosition]]:
    """Open a connection that sees all tables as of the returned position; it is closed at the end of the context.

    FLUSH TABLES WITH READ LOCK (needs RELOAD) blocks writers only while snapshot and position are determined, not while
    the tables are read. Only transactional tables keep that state.
    """
    with connected(server) as reader:
        ask(reader, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with connected(server) as locker:
            # Nothing is committed between this lock and its release, so the snapshot and the position are of the
            # same moment.
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
