"""Rows of a table as of an earlier position of the log: the current rows, with the changes since then undone.

A transaction is in the rows if the snapshot in which they were read sees it, and messages of the log have the number of
their transaction. So exactly the changes after the position that the rows show are undone, whatever commits meanwhile.
The log must contain the old rows of updates and deletes (REPLICA IDENTITY FULL); inserts can always be undone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch, DecodeOptions
from penstock.ingest.database.past_rows import keys_before, row_numbers, with_newest_columns
from penstock.ingest.postgres.errors import IdentityTooWeak, TableEmptied
from penstock.ingest.postgres.log.decode import LogDecoder
from penstock.ingest.postgres.log.messages import MessageBlock
from penstock.ingest.postgres.log.stream import WalRange, streamed
from penstock.ingest.postgres.log.visible_transactions import SeenMessages, VisibleTransactions
from penstock.ingest.postgres.relation import FULL, NeedsText
from penstock.ingest.postgres.server.catalog import Types, logged_relation, qualified, quoted, relations
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.lsn import lsn_text, reachable_end
from penstock.ingest.postgres.server.slot import copied_slot, require_slot
from penstock.ingest.postgres.snapshot.chunks import chunk_batches, in_chunk
from penstock.ingest.source import PastUnknown
from penstock.row_kinds import INSERT

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools
    from penstock.formats.demand import DemandPolicy
    from penstock.ingest.postgres.relation import LoggedRelation, Relation
    from penstock.ingest.postgres.server.address import PgAddress
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.snapshot.chunks import KeyChunk

logger = logging.getLogger(__name__)
_NO_SUCH_TABLE, _DENIED = "42P01", "42501"
_TRIES = 3


@dataclass(frozen=True, slots=True)
class SlotLog:
    """The log of a pipeline's slot, read through copies of the slot: the slot itself does not move.

    `remedy` is what to do if the log lacks old rows, beside REPLICA IDENTITY FULL. `demand` decides which part of a
    table is read. With `follows_truncate`, TRUNCATE in the log empties the target.
    """

    server: PgAddress
    slot: str
    publication: str
    remedy: str
    demand: DemandPolicy | None = None
    follows_truncate: bool = False


def chunk_as_of(log: SlotLog, chunk: KeyChunk, at: int, oddities: Counter[str]) -> Iterator[ChangeBatch]:
    """Yield the chunk's rows as of the position `at`, as inserts; nothing if the table does not exist any more.

    Each call yields the same rows, however late it is. Holds the chunk, and the changes of its table since then, in
    memory.
    """
    with _snapshot_of(log, chunk) as snapshot:
        if snapshot is None:
            return
        connection, relation, visible = snapshot
        rows = list(chunk_batches(connection, chunk, relation, oddities, log.demand))
        try:
            since = changes_since(log, relation, at, visible)
        except TableEmptied:
            if not log.follows_truncate:
                raise
            # The target is emptied when the log gets there, and rows since then come from the log.
            logger.info("event=rows_left_out table=%s reason=TRUNCATE after the position", relation.qualified)
            return
        yield from keys_before(rows, since, lambda keys: in_chunk(connection, chunk, keys))


def table_as_of(log: SlotLog, table: KeyChunk, at: int, oddities: Counter[str]) -> Iterator[ChangeBatch]:
    """Yield all rows of a table as of the position `at`, as inserts. `table` is a chunk without bounds.

    Holds one block, and the changes of the table since then, in memory.
    """
    with _snapshot_of(log, table) as snapshot:
        if snapshot is None:
            return
        connection, relation, visible = snapshot
        since = changes_since(log, relation, at, visible)
        for batch in chunk_batches(connection, table, relation, oddities, log.demand):
            yield batch if not since else batch.filter(~_touched(batch, since))
        # The old versions of all rows that were changed since then.
        yield from keys_before([], since, lambda keys: np.ones(len(keys), np.bool_))


@contextmanager
def _snapshot_of(log: SlotLog, chunk: KeyChunk) -> Iterator[tuple[PgConnection, Relation, VisibleTransactions] | None]:
    """Open a transaction whose statements all see the table at one moment; None if the table is gone."""
    with connected(log.server) as connection:
        if not _locked(connection, chunk):
            yield None
            return
        visible = VisibleTransactions.of(str(connection.value("SELECT pg_current_snapshot()")))
        relation = relations(connection, [chunk.oid]).get(chunk.oid)
        yield None if relation is None else (connection, relation, visible)


def _locked(connection: PgConnection, chunk: KeyChunk) -> bool:
    """Begin a transaction with the lock of a SELECT on the table; False if the table is gone.

    The lock is taken before the snapshot: to an older snapshot, a table that ALTER TABLE rewrote appears to be empty.
    """
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    try:
        connection.rows(begin)
        connection.rows(f"LOCK TABLE {qualified(chunk.name)} IN ACCESS SHARE MODE")
    except SourceError as error:
        if error.facts.get("sqlstate") == _NO_SUCH_TABLE:
            return False
        if error.facts.get("sqlstate") != _DENIED:
            raise
    else:
        return True
    # LOCK TABLE needs a right on the whole table, and the user may read only some columns. A SELECT of the key takes
    # the lock too, after its snapshot; the files of the table show whether it was rewritten in between.
    key = ", ".join(map(quoted, chunk.key))
    for _ in range(_TRIES):
        connection.rows("ROLLBACK")
        before = connection.value(f"SELECT pg_relation_filenode({chunk.oid})")
        connection.rows(begin)
        connection.rows(f"SELECT {key} FROM {qualified(chunk.name)} LIMIT 0")
        if connection.value(f"SELECT pg_relation_filenode({chunk.oid})") == before:
            return True
    raise SourceError(
        "the table was rewritten at each attempt to read its rows",
        table=".".join(chunk.name),
        hint="run it while no ALTER TABLE, VACUUM FULL, CLUSTER or TRUNCATE rewrites the table",
        retryable=True,
    )


def _touched(batch: ChangeBatch, changes: list[ChangeBatch]) -> Bools:
    """Return which rows have a key that occurs in the changes."""
    both = with_newest_columns([batch, *changes])
    key = list(batch.schema.primary_keys)
    numbers = row_numbers(pa.Table.from_batches([batch.rows.select(key) for batch in both]).combine_chunks())
    found: Bools = np.isin(numbers[: len(batch)], numbers[len(batch) :])
    return found


def changes_since(log: SlotLog, relation: Relation, at: int, visible: VisibleTransactions) -> list[ChangeBatch]:
    """Return the changes of a table after the position `at` that a snapshot sees, with both images of updates.

    PastUnknown if the log lacks old rows.
    """
    # Later than the snapshot, so that the log up to there has all transactions that the snapshot sees.
    with connected(log.server) as connection:
        end = reachable_end(connection)
    if end <= at:
        return []
    try:
        return _changes(log, relation, at, visible, end, binary=relation.is_binary)
    except NeedsText:
        return _changes(log, relation, at, visible, end, binary=False)


def _changes(
    log: SlotLog, relation: Relation, at: int, visible: VisibleTransactions, end: int, *, binary: bool
) -> list[ChangeBatch]:
    found: list[ChangeBatch] = []
    with connected(log.server) as catalog, connected(log.server, replication=True) as stream:
        require_slot(catalog, log.slot, at)
        part = WalRange(copied_slot(stream, log.slot), (log.publication,), at, end, binary)
        require_slot(catalog, log.slot, at)  # again: it was not moved before it was copied
        types = Types(catalog)

        def described(logged: LoggedRelation) -> Relation | None:
            if logged.oid != relation.oid:
                return None
            then = logged_relation(catalog, types, logged, relation.key)
            assert then is not None
            if binary and not then.is_binary:
                raise NeedsText
            return then

        decoder, seen = LogDecoder(described, DecodeOptions(), Counter()), SeenMessages(visible)
        for messages in streamed(stream, part):
            try:
                decoded, emptied = decoder.decode(seen.of(MessageBlock.of(messages)))
            except IdentityTooWeak as error:
                raise _unknown(log, relation, at) from error
            if emptied:
                raise TableEmptied(
                    "the table was emptied by TRUNCATE, so that its rows before are not known",
                    table=relation.qualified,
                    position=lsn_text(at),
                    hint=log.remedy,
                )
            for change in decoded:
                # Without FULL, a deleted row has only the values of its key.
                if change.relation.identity != FULL and (change.batch.kinds != INSERT).any():
                    raise _unknown(log, relation, at)
            found += [change.batch for change in decoded if len(change.batch)]
    return found


def _unknown(log: SlotLog, relation: Relation, at: int) -> PastUnknown:
    return PastUnknown(
        f"rows of {relation.qualified} were updated or deleted, and the log lacks what they were before",
        table=relation.qualified,
        position=lsn_text(at),
        hint=f"ALTER TABLE {qualified(relation.name)} REPLICA IDENTITY FULL;  {log.remedy}",
    )
