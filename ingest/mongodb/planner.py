"""The plan of the next batch of a MongoDB source: its part of the log, and collections that are new."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from penstock.errors import in_one_line
from penstock.ingest.database.nothing_captured import no_collection
from penstock.ingest.database.planner import CopyPlanner
from penstock.ingest.database.settings import CapturedTables
from penstock.ingest.mongodb.errors import ClusterChanged
from penstock.ingest.mongodb.log.stream import LogPart, require_stream
from penstock.ingest.mongodb.offsets import MongoBatch, MongoProgress
from penstock.ingest.mongodb.server.checks import require_history, server_name
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_text
from penstock.ingest.mongodb.server.collections import Collection, TableName, databases, selected_collections
from penstock.ingest.mongodb.server.connection import MongoConnection, kept_connected
from penstock.ingest.mongodb.settings import MongoSettings
from penstock.ingest.mongodb.snapshot.chunks import IdChunk, cut_chunk
from penstock.ingest.source import Barrier, Limit

log = logging.getLogger(__name__)
_SECOND = 1 << 32
# How old a position is at least before it may be lost.
_SURELY_KEPT = 60 * _SECOND


@dataclass(slots=True)
class MongoPlanner(CopyPlanner[MongoSettings, MongoConnection, MongoProgress, Collection]):
    """The planner of batches of a MongoDB source."""

    def connected(self) -> AbstractContextManager[MongoConnection]:
        return kept_connected(self.settings.server)

    def begun(self, connection: MongoConnection) -> MongoProgress:
        settings = self.settings
        known = {collection.table: collection.identity for collection in self.captured(connection)}
        start = _after_now(connection)
        if settings.timestamp_millis is not None:
            start = settings.timestamp_millis // 1000 * _SECOND
            require_history(connection, start)
        waiting = tuple(known) if settings.reads_tables else ()
        log.info("event=begins position=%s collections=%d mode=%s", time_text(start), len(known), settings.mode)
        return MongoProgress(
            server=server_name(connection),
            log=start,
            known=known,
            waiting=waiting,
            reread="" if settings.reset else settings.rereads,
            batch=MongoBatch(start),
        )

    def restarted(self, connection: MongoConnection) -> MongoProgress:
        begun = self.begun(connection)
        return begun if self.settings.timestamp_millis is None else replace(begun, log=_after_now(connection))

    def empty_batch(self, position: int, barriers: tuple[Barrier, ...] = ()) -> MongoBatch:
        return MongoBatch(position, (), barriers)

    def position_text(self, position: int) -> str:
        return time_text(position)

    def resumed(self, connection: MongoConnection, progress: MongoProgress) -> MongoProgress:
        check_progress(connection, progress, self.settings)
        return progress

    def newest(self, connection: MongoConnection) -> ClusterTime:
        return _after_now(connection)

    def captured(self, connection: MongoConnection) -> list[Collection]:
        """Return the collections that exist now and are captured."""
        found = selected_collections(connection, self.settings.tables, self.settings.database)
        return [collection for collection in found if collection.has_stream]

    def seen(self, connection: MongoConnection) -> list[TableName]:
        """Return the collections that exist; the databases alone if the only selected one does not."""
        names, only = databases(connection), self.settings.database
        if only is not None and only not in names:
            return [(name, "*") for name in names]
        return [collection.table for collection in selected_collections(connection, CapturedTables(), only)]

    def end(self) -> ClusterTime:
        """Return the current end of the log."""
        with self.connected() as connection:
            return _after_now(connection)

    def with_content(
        self, connection: MongoConnection, progress: MongoProgress, limit: Limit, until: ClusterTime | None
    ) -> MongoProgress:
        now = _after_now(connection)
        known = progress.known
        progress = self._with_new_collections(connection, progress)
        fresh = [name for name, identity in progress.known.items() if known.get(name) != identity]
        progress = self.without_outdated(progress, fresh)
        if progress.batch.barriers:
            return progress
        # At least up to the times after which new collections are read, so that the next batch can read them.
        now = max(now, *progress.new.values(), 0)
        # The end of the log is determined before chunks are read, and begins at the end of the batch before: a
        # change that a chunk misses comes through the log.
        progress = self._with_log(progress, now, until)
        return self.with_chunks(connection, progress, limit) if progress.reads_tables else progress

    def captured_tables(self, connection: MongoConnection) -> Mapping[TableName, Collection]:
        return {collection.table: collection for collection in self.captured(connection)}

    def first_chunk(self, connection: MongoConnection, table: Collection) -> IdChunk:
        return IdChunk(*table.table)

    def cut_chunk(self, connection: MongoConnection, rest: IdChunk, rows: int) -> tuple[IdChunk, IdChunk | None]:
        return cut_chunk(connection, rest, rows)

    def _with_new_collections(self, connection: MongoConnection, progress: MongoProgress) -> MongoProgress:
        """Return the state in which collections that got a captured name, or are captured again, are read as a whole.

        The events of a new collection are all in the log, but not the documents that a renamed one already had. They
        are read after the events of the collection that had the name before, which would overwrite and delete them.
        Collections that are excluded or away are not known any more: their events are not read, or have another name.
        """
        now = {collection.table: collection.identity for collection in self.captured(connection)}
        fresh = [name for name, identity in now.items() if progress.known.get(name) != identity]
        new = {name: after for name, after in progress.new.items() if name in now}
        if fresh:
            log.info("event=collections_added collections=%s", ",".join(map(".".join, fresh)))
        if fresh and self.settings.reads_new_tables:
            progress = progress.without(fresh)
            # Determined when the collections exist: all events of earlier collections with these names precede it.
            new |= dict.fromkeys(fresh, _after_now(connection))
        due = [name for name, after in new.items() if after <= progress.log]
        new = {name: after for name, after in new.items() if name not in due}
        return replace(progress, known=now, new=new).reading(due)

    def _with_log(self, progress: MongoProgress, now: ClusterTime, until: ClusterTime | None) -> MongoProgress:
        # While collections are read, the time at which they are consistent is not known yet, so a bounded run
        # continues.
        if progress.reads_tables or until is None:
            until = now
        # Documents of a snapshot are right once the log has passed the time when they were read.
        end = min(now, progress.log + self.settings.log_seconds * _SECOND, max(until, progress.settle))
        return replace(progress, log=max(end, progress.log))


def _after_now(connection: MongoConnection) -> ClusterTime:
    """Return the time after the newest operation: a stream that begins at a time includes the operation of that time.

    For example a drop of the database, which would end the stream at once.
    """
    return connection.now() + 1


def check_progress(connection: MongoConnection, progress: MongoProgress, settings: MongoSettings | None = None) -> None:
    """Raise PositionLost if the server is another one, or no longer has the log after this position.

    If `settings` read collections again in this case and the user may not read the oplog, a stream is opened as a test:
    otherwise the loss would be an error of the task, after the plan. Positions of the last minute are not tested: a
    running pipeline would open a stream for each batch.
    """
    name = server_name(connection)
    if name != progress.server:
        raise ClusterChanged(
            "another server answers at the address, and its log has other times",
            before=progress.server,
            now=name,
            hint="use the address of the former server, or start with --resnapshot",
        )
    if require_history(connection, progress.log) or settings is None or not settings.rereads_when_lost:
        return
    start = progress.log
    if connection.now() > start + _SURELY_KEPT:
        require_stream(connection, LogPart(start, start + 1, settings.database, settings.collection))


def captured_collections(planner: MongoPlanner, connection: MongoConnection, *, must: bool) -> list[Collection]:
    """Return the collections to capture; with `must`, an empty list is a ConfigError."""
    collections = planner.captured(connection)
    if not collections:
        hint = "names are regular expressions that match the whole; views and time series have no change stream"
        tables = planner.settings.tables
        error = no_collection(tables, planner.seen(connection), hint)
        if must:
            raise error
        # A pipeline of a whole database may begin before its first collection.
        log.warning("event=no_tables_there reason=%s", in_one_line(error))
    return collections
