"""The plan of the next batch: chunks of tables still to be read, and the log from the end of the last batch.

Within a batch, snapshot rows are ordered before rows of the log, but they are read after the batch was planned. The log
that follows may therefore set a row back to an older state for a moment; once the log has passed the time of the read,
the table is right.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from penstock.errors import ConfigError, PositionLost
from penstock.ingest.connector_requests import TableName
from penstock.ingest.database.progress import CopyProgress, PlannedChunk
from penstock.ingest.database.requested_tables import (
    emptied_by,
    log_reread,
    requested_parts,
    requested_tables,
    with_refused_names,
)
from penstock.ingest.database.settings import MAX_CHUNKS, Address, ChunkedSettings
from penstock.ingest.database.table_parts import TablePart, accepted_parts
from penstock.ingest.source import Barrier, Limit

log = logging.getLogger(__name__)

S = TypeVar("S", bound=ChunkedSettings[Address])
N = TypeVar("N")  # the connection
G = TypeVar("G", bound=CopyProgress[Any])
T = TypeVar("T")  # the facts that the server has about a table


@dataclass(slots=True)
class CopyPlanner(ABC, Generic[S, N, G, T]):
    """The planner of batches. Lives in the planner process as long as a query runs; offsets contain all it needs."""

    settings: S
    at_barrier: bool = False

    @abstractmethod
    def connected(self) -> AbstractContextManager[N]:
        """Open a connection for the context."""

    @abstractmethod
    def begun(self, connection: N) -> G:
        """Return the start of a pipeline without a checkpoint."""

    @abstractmethod
    def restarted(self, connection: N) -> G:
        """Return a new start at the current end of the log, after the former position was lost or given up."""

    @abstractmethod
    def empty_batch(self, position: int, barriers: tuple[Barrier, ...] = ()) -> Any:
        """Return a batch whose part of the log begins and ends at this position."""

    @abstractmethod
    def position_text(self, position: int) -> str:
        """Return a position as the server prints it."""

    @abstractmethod
    def resumed(self, connection: N, progress: G) -> G:
        """Return the state on the server as it is now; PositionLost if the log cannot be read from there on."""

    @abstractmethod
    def newest(self, connection: N) -> int | None:
        """Return the newest position that a reader can reach, None if none is known now."""

    @abstractmethod
    def with_content(self, connection: N, progress: G, limit: Limit, until: int | None) -> G:
        """Return the state with new tables, its part of the log, and chunks."""

    @abstractmethod
    def captured_tables(self, connection: N) -> Mapping[TableName, T]:
        """Return the tables that exist now and are captured."""

    @abstractmethod
    def first_chunk(self, connection: N, table: T) -> Any:
        """Return a chunk of the whole table, from which chunks are cut; None if there is nothing to read."""

    @abstractmethod
    def cut_chunk(self, connection: N, rest: Any, rows: int) -> tuple[Any, Any]:
        """Return a chunk of about this many rows, and the rest after it, None if the chunk is the last one."""

    def check_part(self, connection: N, table: T, part: TablePart) -> None:
        """Raise ConfigError or SourceError if the part cannot be read. By default, no part can."""
        raise ConfigError(
            "this source cannot read a part of a table by a condition",
            table=".".join(part.name),
            hint="penstock signal PIPELINE snapshot TABLE  without --where reads the whole table",
        )

    def begin(self) -> G:
        """Return the start of a pipeline without a checkpoint."""
        with self.connected() as connection:
            return self.begun(connection)

    def next(self, before: G, limit: Limit, until: int | None) -> G | None:
        """Return the end of the batch after `before`, with its content; None if there is nothing to do."""
        self.at_barrier = False
        settings = self.settings
        with self.connected() as connection:
            requested = settings.is_requested(before.reread)
            if requested and not settings.reset:
                return self._restart(connection)
            progress = replace(before, batch=self.empty_batch(before.log))
            try:
                progress = self.resumed(connection, progress)
            except PositionLost as error:
                if not settings.rereads_when_lost:
                    raise
                position = self.position_text(progress.log)
                log.warning("event=position_lost reason=%s position=%s", error.message, position)
                return self._restart(connection)
            # The chunks of the batch before have been read by now.
            if before.batch.reads_present:
                progress = replace(progress, settle=self.newest(connection) or progress.settle)
            progress, emptied = self._with_requests(connection, progress)
            if requested or emptied:
                return self.reset(
                    connection, progress, list(dict.fromkeys([*(settings.reset if requested else ()), *emptied]))
                )
            progress = self.with_content(connection, progress, limit, until)
        if progress.batch.barriers:
            return progress
        # After chunks whose rows were current when they were read, the next offsets record that the tables are
        # complete.
        if replace(progress, batch=before.batch) == before and not before.batch.reads_present:
            return None
        return progress

    def _restart(self, connection: N) -> G:
        """Return a new start, with a batch that empties all tables."""
        begun = replace(self.restarted(connection), signals=self.settings.requests.resets())
        return self._emptied(begun, list(begun.known))

    def _emptied(self, progress: G, names: Sequence[TableName]) -> G:
        """Return a batch that empties the targets of tables, whose rows are then read again."""
        log_reread(names)
        self.at_barrier = True
        barriers = tuple(Barrier("read-again", *name) for name in names)
        batch = self.empty_batch(progress.log, barriers)
        reread = self.settings.rereads or progress.reread
        return replace(progress.reading(names), reread=reread, batch=batch)

    def reset(self, connection: N, progress: G, names: Sequence[TableName]) -> G:
        """Return a batch that empties the targets of the tables to reset."""
        return self._emptied(progress, names)

    def without_outdated(self, progress: G, fresh: Collection[TableName]) -> G:
        """Return a batch that empties targets of new tables: their rows are of an earlier table with the same name."""
        names = sorted(self.settings.outdated.intersection(fresh))
        if not names:
            return progress
        log.info("event=outdated_tables_emptied tables=%s", ",".join(map(".".join, names)))
        self.at_barrier = True
        barriers = tuple(Barrier("truncate", *name) for name in names)
        return replace(progress, batch=self.empty_batch(progress.log, barriers))

    def _with_requests(self, connection: N, progress: G) -> tuple[G, list[TableName]]:
        """Return the state in which the tables that users requested are read again, and those to empty before."""
        emptied: list[TableName] = []
        requests = self.settings.requests.pending(progress.signals)
        if requests:
            tables = self.captured_tables(connection)
            progress = progress.reading(requested_tables(requests, list(tables)))
            emptied = emptied_by(requests, list(tables))
            wanted = requested_parts(requests, list(tables))
            parts, refused = accepted_parts(wanted, lambda part: self.check_part(connection, tables[part.name], part))
            refused = with_refused_names(requests, list(tables), refused)
            progress = replace(progress.reading_parts(parts), refused=refused)
        return replace(progress, signals=tuple(request.name for request in requests)), emptied

    def with_chunks(self, connection: N, progress: G, limit: Limit) -> G:
        """Cut chunks until the batch is full. The position must be determined before the chunks are read."""
        tables = self.captured_tables(connection)
        rows = limit.rows or self.settings.snapshot_rows
        size = min(self.settings.chunk_rows, rows)
        chunks: list[PlannedChunk] = []
        waiting, parts, rest = list(progress.waiting), list(progress.parts), progress.rest
        while rows > 0 and len(chunks) < MAX_CHUNKS and (rest is not None or waiting or parts):
            if rest is None:
                name, where = (waiting.pop(0), "") if waiting else (parts[0].name, parts.pop(0).where)
                table = tables.get(name)
                rest = None if table is None else self.first_chunk(connection, table)
                if rest is not None and where:
                    rest = replace(rest, where=where)
                continue
            if rest.name not in tables:  # dropped in the meantime
                rest = None
                continue
            chunk, rest = self.cut_chunk(connection, rest, size)
            chunks.append(chunk)
            rows -= size
        batch = replace(progress.batch, chunks=tuple(chunks))
        return replace(progress, waiting=tuple(waiting), parts=tuple(parts), rest=rest, batch=batch)
