"""The plan of the next batch: chunks of collections still to be read, and the log from the end of the last batch.

Within a batch, documents of chunks are ordered before changes of the log, but they are read after the batch was
planned. The log that follows may therefore set a row back to an older state for a moment; once the log has passed the
time of the read, the table is right.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, PositionLost
from penstock.ingest.database.settings import MAX_CHUNKS, log_reread, requested_tables
from penstock.ingest.mongodb.errors import ClusterChanged
from penstock.ingest.mongodb.offsets import MongoBatch, MongoProgress
from penstock.ingest.mongodb.server.checks import require_history, server_name
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_text
from penstock.ingest.mongodb.server.collections import Collection, TableName, selected_collections
from penstock.ingest.mongodb.server.connection import connected
from penstock.ingest.mongodb.snapshot.chunks import IdChunk, cut_chunk
from penstock.ingest.source import Barrier, Limit

if TYPE_CHECKING:
    from penstock.ingest.mongodb.server.connection import MongoConnection
    from penstock.ingest.mongodb.settings import MongoSettings

log = logging.getLogger(__name__)
_SECOND = 1 << 32


@dataclass(slots=True)
class MongoPlanner:
    """The planner of batches. Lives in the planner process as long as a query runs; offsets contain all it needs."""

    settings: MongoSettings
    at_barrier: bool = False

    def begin(self) -> MongoProgress:
        """Return the start of a pipeline without a checkpoint."""
        with connected(self.settings.server) as connection:
            return self._begin(connection)

    def _begin(self, connection: MongoConnection) -> MongoProgress:
        settings = self.settings
        known = {one.table: one.identity for one in self.captured(connection)}
        start = _after_now(connection)
        if settings.timestamp_millis is not None:
            start = settings.timestamp_millis // 1000 * _SECOND
            require_history(connection, start)
        waiting = tuple(known) if settings.reads_tables else ()
        log.info("event=begins position=%s collections=%d mode=%s", time_text(start), len(known), settings.mode)
        granted = "" if settings.reset else settings.rereads
        return MongoProgress(server_name(connection), start, known, waiting, reread=granted, batch=MongoBatch(start))

    def captured(self, connection: MongoConnection) -> list[Collection]:
        """Return the collections that exist now and are captured."""
        found = selected_collections(connection, self.settings.tables, self.settings.database)
        return [one for one in found if one.has_stream]

    def end(self) -> ClusterTime:
        """Return the current end of the log."""
        with connected(self.settings.server) as connection:
            return _after_now(connection)

    def next(self, before: MongoProgress, limit: Limit, until: ClusterTime | None) -> MongoProgress | None:
        """Return the end of the batch after `before`, with its content; None if there is nothing to do."""
        self.at_barrier = False
        settings = self.settings
        with connected(settings.server) as connection:
            requested = settings.is_requested(before.reread)
            if requested and not settings.reset:
                return self._restart(connection)
            now = _after_now(connection)
            progress = replace(before, batch=MongoBatch(before.log))
            # The chunks of the batch before have been read by now.
            if before.batch.chunks:
                progress = replace(progress, settle=now)
            try:
                check_progress(connection, progress)
            except PositionLost as error:
                if not settings.rereads_when_lost:
                    raise
                log.warning("event=position_lost reason=%s position=%s", error.message, time_text(progress.log))
                return self._restart(connection)
            progress = self._with_requests(connection, progress)
            if requested:
                return self._emptied(progress, settings.reset, settings.rereads)
            progress = self._with_new_collections(connection, progress)
            # The end of the log is determined before chunks are read, and begins at the end of the batch before: a
            # change that a chunk misses comes through the log.
            progress = self._with_log(progress, now, until)
            if progress.reads_tables:
                progress = self._with_chunks(connection, progress, limit)
        return None if replace(progress, batch=before.batch) == before else progress

    def _restart(self, connection: MongoConnection) -> MongoProgress:
        """Return a new start at the current end of the log, with a batch that empties all tables."""
        begun = self._begin(connection)
        names = tuple(begun.known)
        log_reread(names)
        self.at_barrier = True
        empty = tuple(Barrier("truncate", *name) for name in names)
        position = _after_now(connection) if self.settings.timestamp_millis is not None else begun.log
        return replace(
            begun, log=position, waiting=names, reread=self.settings.rereads, batch=MongoBatch(position, (), empty)
        )

    def _emptied(self, progress: MongoProgress, names: Sequence[TableName], request: str) -> MongoProgress:
        """Return a batch that empties the targets of some collections, whose documents are then read again."""
        log_reread(names)
        self.at_barrier = True
        empty = tuple(Barrier("truncate", *name) for name in names)
        return replace(progress.reading(names), reread=request, batch=MongoBatch(progress.log, (), empty))

    def _with_requests(self, connection: MongoConnection, progress: MongoProgress) -> MongoProgress:
        """Return the state in which the collections that users requested are read again."""
        requests = self.settings.requests.pending(progress.signals)
        if requests:
            captured = [one.table for one in self.captured(connection)]
            progress = progress.reading(requested_tables(requests, captured))
        return replace(progress, signals=tuple(request.name for request in requests))

    def _with_new_collections(self, connection: MongoConnection, progress: MongoProgress) -> MongoProgress:
        """Return the state in which collections that came by a rename are read as a whole.

        The events of a new collection are all in the log, but not the documents that a renamed one already had.
        """
        now = {one.table: one.identity for one in self.captured(connection)}
        fresh = [name for name, identity in now.items() if progress.known.get(name) != identity]
        if not fresh:
            return progress
        log.info("event=collections_added collections=%s", ",".join(map(".".join, fresh)))
        progress = replace(progress, known={**progress.known, **{name: now[name] for name in fresh}})
        reads = self.settings.new_tables and self.settings.reads_tables
        return progress.reading(fresh) if reads else progress

    def _with_log(self, progress: MongoProgress, now: ClusterTime, until: ClusterTime | None) -> MongoProgress:
        # While collections are read, the time at which they are consistent is not known yet, so a bounded run
        # continues.
        if progress.reads_tables or until is None:
            until = now
        # Documents of a snapshot are right once the log has passed the time when they were read.
        end = min(now, progress.log + self.settings.log_seconds * _SECOND, max(until, progress.settle))
        return replace(progress, log=max(end, progress.log))

    def _with_chunks(self, connection: MongoConnection, progress: MongoProgress, limit: Limit) -> MongoProgress:
        """Cut chunks until the batch is full."""
        exists = {one.table for one in self.captured(connection)}
        rows = limit.rows or self.settings.snapshot_rows
        size = min(self.settings.chunk_rows, rows)
        chunks: list[IdChunk] = []
        waiting, rest = list(progress.waiting), progress.rest
        while rows > 0 and len(chunks) < MAX_CHUNKS and (rest is not None or waiting):
            if rest is None:
                rest = IdChunk(*waiting.pop(0))
            if rest.name not in exists:  # dropped in the meantime
                rest = None
                continue
            chunk, rest = cut_chunk(connection, rest, size)
            chunks.append(chunk)
            rows -= size
        batch = replace(progress.batch, chunks=tuple(chunks))
        return replace(progress, waiting=tuple(waiting), rest=rest, batch=batch)


def _after_now(connection: MongoConnection) -> ClusterTime:
    """Return the time after the newest operation: a stream that begins at a time includes the operation of that time.

    For example a drop of the database, which would end the stream at once.
    """
    return connection.now() + 1


def check_progress(connection: MongoConnection, progress: MongoProgress) -> None:
    """Raise PositionLost if the server is another one, or no longer has the log after this position."""
    name = server_name(connection)
    if name != progress.server:
        raise ClusterChanged(
            "the server is another one: times of its log mean nothing here",
            before=progress.server,
            now=name,
            hint="use the address of the former server, or start with --resnapshot",
        )
    require_history(connection, progress.log)


def captured_collections(planner: MongoPlanner, connection: MongoConnection, *, must: bool) -> list[Collection]:
    """Return the collections to capture; with `must`, none is a ConfigError."""
    found = planner.captured(connection)
    if not found and must:
        tables = planner.settings.tables
        raise ConfigError(
            "No collection satisfies the given database and collection.",
            databases=tables.databases,
            collections=tables.names or tables.tables,
            hint="names are regular expressions that match the whole; views and time series have no change stream",
        )
    return found
