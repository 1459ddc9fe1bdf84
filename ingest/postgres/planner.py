"""The plan of the next batch: chunks of tables still to be read, and the log from the end of the last batch.

Within a batch, snapshot rows are ordered before rows of the log, but they are read after the batch was planned. The log
that follows may therefore set a row back to an older state for a moment; once the log has passed the time of the read,
the table is right.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, PositionLost, SchemaConflict, SourceError
from penstock.ingest.database.settings import BYTES_PER_CHANGE, MAX_CHUNKS, log_reread, requested_tables
from penstock.ingest.postgres.errors import ServerChanged, TableNotPublished
from penstock.ingest.postgres.log.truncations import next_truncate
from penstock.ingest.postgres.offsets import PgBatch, PgProgress
from penstock.ingest.postgres.server.catalog import PgTableFacts, TableName, list_tables
from penstock.ingest.postgres.server.checks import wait_for_standbys
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.slot import (
    lsn_text,
    parse_lsn,
    reachable_end,
    require_slot,
    slot_facts,
    slot_to_read,
    sound_position,
)
from penstock.ingest.postgres.snapshot.chunks import KeyChunk, cut_chunk, first_chunk
from penstock.ingest.source import Barrier, Limit

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.settings import PgSettings

log = logging.getLogger(__name__)

_LOOKS, _PAUSE_S = 10, 0.1  # for a position that is flushed
# In seconds, for transactions that run since before a table was published.
_LONGEST_WAIT_S = 600.0


@dataclass(slots=True)
class PgPlanner:
    """The planner of batches. Lives in the planner process as long as a query runs; offsets contain all it needs."""

    settings: PgSettings
    at_barrier: bool = False
    _position: int = field(default=0, repr=False)  # seen before, and flushed by now

    def begin(self) -> PgProgress:
        """Return the start of a pipeline without a checkpoint, with its slot created."""
        with connected(self.settings.server) as connection:
            return self._begin(connection, replaces_lost=False)

    def _begin(self, connection: PgConnection, *, replaces_lost: bool) -> PgProgress:
        settings = self.settings
        names = tuple(one.name for one in self.captured(connection))
        self.publish(connection, names)
        found = slot_facts(connection, settings.slot)
        slot = slot_to_read(connection, settings.slot, failover=settings.failover, replaces_lost=replaces_lost)
        # A new slot starts where all earlier transactions are visible: rows that are read later include them.
        start = slot.confirmed
        # A slot that existed before may be old, and this mode begins with the present.
        if found is not None and not settings.reads_tables:
            start = max(start, self._end(connection) or start)
        # The slot may also be older than the publication, and then lacks changes that are to be undone.
        if settings.reads_exactly:
            start = max(start, self._exact_position(connection))
        waiting = names if settings.reads_tables else ()
        system, database = _identity(connection)
        log.info("event=begins position=%s tables=%d mode=%s", lsn_text(start), len(names), settings.mode)
        granted = "" if settings.reset else settings.rereads
        return PgProgress(system, database, settings.slot, start, names, waiting, reread=granted, batch=PgBatch(start))

    def publish(self, connection: PgConnection, names: Sequence[TableName]) -> bool:
        """Make sure that the publication exists and has these tables; return whether it was changed."""
        return bool(names) and self.settings.publication.require(connection, names)

    def captured(self, connection: PgConnection) -> list[PgTableFacts]:
        """Return the tables that exist now and are captured."""
        return [one for one in self.selected(connection) if one.has_key]

    def selected(self, connection: PgConnection) -> list[PgTableFacts]:
        """Return the tables that exist now and are selected, including those without a key."""
        return [one for one in list_tables(connection) if one.is_logged and self.settings.tables.includes(*one.name)]

    def end(self) -> int:
        """Return the current end of the log."""
        with connected(self.settings.server) as connection:
            found = self._end(connection)
            return found or parse_lsn(str(connection.value("SELECT pg_current_wal_flush_lsn()")))

    def next(self, before: PgProgress, limit: Limit, until: int | None) -> PgProgress | None:
        """Return the end of the batch after `before`, with its content; None if there is nothing to do."""
        self.at_barrier = False
        settings = self.settings
        with connected(settings.server) as connection:
            requested = settings.is_requested(before.reread)
            if requested and not settings.reset:
                return self._restart(connection)
            progress = replace(before, batch=PgBatch(before.log))
            # The chunks of the batch before have been read by now.
            if before.batch.chunks and not before.batch.as_of:
                progress = replace(progress, settle=self._end(connection) or progress.settle)
            try:
                self._check(connection, progress)
            except PositionLost as error:
                if not settings.rereads_when_lost:
                    raise
                log.warning("event=position_lost reason=%s position=%s", error.message, lsn_text(progress.log))
                return self._restart(connection)
            progress = self._with_requests(connection, progress)
            if requested:
                return self._emptied(progress, settings.reset, settings.rereads)
            progress = self._with_new_tables(connection, progress)
            # The log is planned before chunks are cut. Its part begins at the end of the batch before, so a commit
            # that is logged but not yet visible to the read of a chunk comes through the log.
            progress = self._with_log(connection, progress, limit, until)
            if progress.batch.barriers:
                return progress
            if progress.reads_tables and not (settings.reads_exactly and progress.log > before.log):
                progress = self._with_chunks(connection, progress, limit)
        return None if replace(progress, batch=before.batch) == before else progress

    def _check(self, connection: PgConnection, progress: PgProgress) -> None:
        system, database = _identity(connection)
        if (system, database) != (progress.server, progress.database):
            raise ServerChanged(
                "the server is another one: positions of its log mean nothing here",
                before=f"{progress.server}/{progress.database}",
                now=f"{system}/{database}",
                hint="use the address of the former server, or start with --resnapshot",
            )
        require_slot(connection, progress.slot, progress.log)

    def _restart(self, connection: PgConnection) -> PgProgress:
        """Return a new start at the current end of the log, with a batch that empties all tables."""
        begun = self._begin(connection, replaces_lost=True)
        # Changes before this position are in the rows that are read again, however far behind the slot is.
        position = begun.log if self.settings.reads_exactly else self._end(connection) or begun.log
        log_reread(begun.known)
        self.at_barrier = True
        empty = tuple(Barrier("truncate", *name) for name in begun.known)
        return replace(
            begun, log=position, waiting=begun.known, reread=self.settings.rereads, batch=PgBatch(position, (), empty)
        )

    def _emptied(self, progress: PgProgress, names: Sequence[TableName], request: str) -> PgProgress:
        """Return a batch that empties the targets of some tables, whose rows are then read again."""
        log_reread(names)
        self.at_barrier = True
        empty = tuple(Barrier("truncate", *name) for name in names)
        return replace(progress.reading(names), reread=request, batch=PgBatch(progress.log, (), empty))

    def _with_requests(self, connection: PgConnection, progress: PgProgress) -> PgProgress:
        """Return the state in which the tables that users requested are read again."""
        requests = self.settings.requests.pending(progress.signals)
        if requests:
            captured = [table.name for table in self.captured(connection)]
            progress = progress.reading(requested_tables(requests, captured))
        return replace(progress, signals=tuple(request.name for request in requests))

    def _with_new_tables(self, connection: PgConnection, progress: PgProgress) -> PgProgress:
        # While tables are read as of a position, the log stays there. For a new table it has to continue first.
        if self.settings.reads_exactly and progress.reads_tables:
            return progress
        selected = self.selected(connection)
        _check_keys([one for one in selected if one.name in progress.known])
        fresh = [one.name for one in selected if one.has_key and one.name not in progress.known]
        if not fresh:
            return progress
        try:
            self.publish(connection, fresh)
        except TableNotPublished as error:
            log.warning("event=tables_not_published tables=%s fix=%s", ",".join(map(".".join, fresh)), error.hint)
            return progress
        log.info("event=tables_added tables=%s", ",".join(map(".".join, fresh)))
        progress = replace(progress, known=(*progress.known, *fresh))
        reads = self.settings.new_tables and self.settings.reads_tables
        if reads and self.settings.reads_exactly:
            position = self._exact_position(connection)
            return replace(progress, exact_from=position, fresh=tuple(fresh)).reading(fresh)
        # Rows that a running transaction changed before the table was published are in no log: they must be visible
        # before the table is read.
        progress = replace(progress, visible_from=_next_transaction(connection))
        return progress.reading(fresh) if reads else progress

    def _exact_position(self, connection: PgConnection) -> int:
        """Return a position as of which tables that are published by now can be read.

        The log has all changes of these tables after the position, and all earlier ones are visible.
        """
        self._wait(connection, _next_transaction(connection))
        position = reachable_end(connection)
        # A commit is logged a moment before it is visible.
        self._wait(connection, _next_transaction(connection))
        return position

    def _with_log(self, connection: PgConnection, progress: PgProgress, limit: Limit, until: int | None) -> PgProgress:
        size = limit.bytes or (limit.rows * BYTES_PER_CHANGE if limit.rows else self.settings.log_bytes)
        if self.settings.reads_exactly and progress.reads_tables:
            if progress.log >= progress.exact_from:
                # The log waits until the tables are read.
                return replace(progress, exact_from=0, fresh=())
            until, batch = progress.exact_from, replace(progress.batch, without=progress.fresh)
            end = min(until, progress.log + size)
            return self._before_truncate(replace(progress, log=end, batch=batch))
        found = self._end(connection)
        if found is None:
            return progress
        # While tables are read, the position at which they are consistent is not known yet, so a bounded run
        # continues.
        if progress.reads_tables or until is None:
            until = found
        # Rows of a snapshot are right once the log has passed the time when they were read.
        end = min(found, progress.log + size, max(until, progress.settle))
        return self._before_truncate(replace(progress, log=max(end, progress.log)))

    def _before_truncate(self, progress: PgProgress) -> PgProgress:
        """Return the batch cut before a transaction with TRUNCATE; a batch of its own empties the tables."""
        start = progress.batch.start
        if not self.settings.follows_truncate or progress.log <= start:
            return progress
        applied = start if progress.emptied else 0
        tables = set(progress.known) - set(progress.batch.without)
        found = next_truncate(self.settings, tables, start, progress.log, applied)
        batch = replace(progress.batch, emptied=progress.emptied)
        if found is None:
            return replace(progress, batch=batch, emptied=())
        self.at_barrier = True
        if found.position > start:
            return replace(progress, log=found.position, batch=batch, emptied=())
        log.info("event=tables_emptied position=%s", lsn_text(start))
        empty = tuple(Barrier("truncate", schema, table) for schema, table, _ in found.tables)
        return replace(progress, log=start, emptied=found.tables, batch=PgBatch(start, (), empty))

    def _end(self, connection: PgConnection) -> int | None:
        """Return the newest position that a reader can reach, None if none is known now."""
        # A record is usually flushed within moments. If it is not, the position found last is still valid.
        for _ in range(_LOOKS):
            found = sound_position(connection)
            if found is not None:
                self._position = found
                return found
            time.sleep(_PAUSE_S)
        return self._position or None

    def _with_chunks(self, connection: PgConnection, progress: PgProgress, limit: Limit) -> PgProgress:
        """Cut chunks until the batch is full. The position must be determined before the chunks are read."""
        # Both waits come before the chunks are cut: they are read in tasks right after this.
        self._wait(connection, progress.visible_from)
        wait_for_standbys(connection)
        facts = {one.name: one for one in self.captured(connection)}
        rows = limit.rows or self.settings.snapshot_rows
        size = min(self.settings.chunk_rows, rows)
        chunks: list[KeyChunk] = []
        waiting, rest = list(progress.waiting), progress.rest
        while rows > 0 and len(chunks) < MAX_CHUNKS and (rest is not None or waiting):
            if rest is None:
                table = facts.get(waiting.pop(0))
                rest = None if table is None else first_chunk(connection, table)
                continue
            if rest.name not in facts:  # dropped in the meantime
                rest = None
                continue
            chunk, rest = cut_chunk(connection, rest, size)
            chunks.append(chunk)
            rows -= size
        as_of = progress.log if self.settings.reads_exactly else 0
        batch = replace(progress.batch, chunks=tuple(chunks), as_of=as_of)
        return replace(progress, waiting=tuple(waiting), rest=rest, visible_from=0, batch=batch)

    def _wait(self, connection: PgConnection, visible_from: int) -> None:
        """Wait until every transaction before this one has ended."""
        began, warned = time.monotonic(), False
        while visible_from and int(str(connection.value(_OLDEST_RUNNING))) < visible_from:
            if not warned:
                log.warning("event=waits_for_transactions reason=they run since before a table was published")
                warned = True
            if time.monotonic() > began + _LONGEST_WAIT_S:
                raise SourceError(
                    "a transaction runs since before a table was added to the publication",
                    retryable=True,
                    waited=f"{_LONGEST_WAIT_S:g} s",
                    hint="SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL;  end it",
                )
            time.sleep(_PAUSE_S)


def _next_transaction(connection: PgConnection) -> int:
    """Return the number that the server gives to the next transaction."""
    return int(str(connection.value("SELECT pg_snapshot_xmax(pg_current_snapshot())")))


_OLDEST_RUNNING = "SELECT pg_snapshot_xmin(pg_current_snapshot())"


def _identity(connection: PgConnection) -> tuple[str, str]:
    """Return the system identifier of the server and the name of the database."""
    system, database = connection.rows("SELECT system_identifier, current_database() FROM pg_control_system()")[0]
    return str(system), str(database)


def _check_keys(known: Sequence[PgTableFacts]) -> None:
    """Raise SchemaConflict if a table that is captured has lost its primary key."""
    keyless = [one.qualified for one in known if not one.has_key]
    if keyless:
        raise SchemaConflict(
            "captured tables have no primary key any more, so that their rows cannot be distinguished",
            tables=", ".join(keyless),
            hint="ALTER TABLE ... ADD PRIMARY KEY, or exclude them with --excluding-tables",
        )


def captured_tables(planner: PgPlanner, connection: PgConnection, *, must: bool) -> list[PgTableFacts]:
    """Return the tables to capture; with `must`, none is a ConfigError."""
    settings = planner.settings
    selected = planner.selected(connection)
    keyless = [one.qualified for one in selected if not one.has_key]
    if keyless and settings.keyless_stops:
        raise ConfigError(
            "Source tables of PostgreSQL table synchronization job cannot contain table which doesn't have primary "
            "keys.",
            tables=", ".join(keyless),
            hint="ALTER TABLE ... ADD PRIMARY KEY, or leave them out of the tables",
        )
    if keyless:
        log.warning("event=tables_without_key left_out=%s", ",".join(keyless))
    found = [one for one in selected if one.has_key]
    if not found and must:
        seen = [one.qualified for one in list_tables(connection)]
        raise ConfigError(
            "No table satisfies the given database name and table name.",
            schemas=settings.tables.databases,
            tables=settings.tables.names or settings.tables.tables,
            without_key=", ".join(keyless) or None,
            seen=", ".join(seen[:8]) or "no table at all",
            hint="names are regular expressions that match the whole; tables need a primary key",
        )
    return found
