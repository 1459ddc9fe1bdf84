"""The plan of the next batch of a PostgreSQL source: its part of the log, and tables that are new."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from penstock.formats.demand import needed
from penstock.ingest.database.findings import require_ready
from penstock.ingest.database.planner import CopyPlanner
from penstock.ingest.database.table_parts import PartRead, TablePart, check_key
from penstock.ingest.postgres.altered_publication import publication_noted, require_published
from penstock.ingest.postgres.altered_tables import applied, forgotten, noted, with_new
from penstock.ingest.postgres.captured_tables import captured, check_keys, check_logged, chosen, publish
from penstock.ingest.postgres.errors import ServerChanged, TableNotPublished
from penstock.ingest.postgres.gone_partitions import with_gone
from penstock.ingest.postgres.kept_sample import KeptSample
from penstock.ingest.postgres.log.partitions import LoggedPartitions
from penstock.ingest.postgres.log.quiet_log import QuietLog
from penstock.ingest.postgres.log.truncations import next_truncate
from penstock.ingest.postgres.log_end import LogEnd, wanted_bytes
from penstock.ingest.postgres.log_format import LogFormat
from penstock.ingest.postgres.offsets import PgBatch, PgProgress
from penstock.ingest.postgres.server.catalog import PgTableFacts, TableName, list_tables, relations
from penstock.ingest.postgres.server.connection import PgConnection, kept_connected
from penstock.ingest.postgres.server.lsn import lsn_text, parse_lsn, reachable_end
from penstock.ingest.postgres.server.server_identity import (
    identity_and_slot,
    require_same_past,
    require_written,
    server_identity,
)
from penstock.ingest.postgres.server.slot import readable_slot, slot_facts, slot_to_read
from penstock.ingest.postgres.server.table_checks import ambiguous_keys
from penstock.ingest.postgres.server.table_version import versions_of
from penstock.ingest.postgres.server.visibility import (
    exact_position,
    next_transaction,
    wait_for_standbys,
    wait_for_transactions,
)
from penstock.ingest.postgres.settings import PgSettings
from penstock.ingest.postgres.snapshot.chunks import KeyChunk, check_selected, cut_chunk, first_chunk
from penstock.ingest.source import Barrier, Limit

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PgPlanner(CopyPlanner[PgSettings, PgConnection, PgProgress, PgTableFacts]):
    """The planner of batches of a PostgreSQL source."""

    _is_published: bool = field(default=False, repr=False)  # at the last plan
    _sample: KeptSample = field(default_factory=KeptSample, repr=False)
    _log_end: LogEnd = field(init=False, repr=False)
    log_format: LogFormat = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.log_format = LogFormat(self.settings)
        self._log_end = LogEnd(self.settings, QuietLog(self.settings.idle_seconds))

    def connected(self) -> AbstractContextManager[PgConnection]:
        return kept_connected(self.settings.server)

    def begun(self, connection: PgConnection) -> PgProgress:
        return self._begun(connection, replaces_lost=False)

    def restarted(self, connection: PgConnection) -> PgProgress:
        begun = self._begun(connection, replaces_lost=True)
        # Changes before this position are in the rows that are read again, however far behind the slot is.
        return begun if self.settings.reads_exactly else replace(begun, log=self.newest(connection) or begun.log)

    def _begun(self, connection: PgConnection, *, replaces_lost: bool) -> PgProgress:
        settings = self.settings
        tables = captured(connection, settings)
        names = tuple(table.name for table in tables)
        publish(connection, settings, names)
        found = slot_facts(connection, settings.slot)
        slot = slot_to_read(connection, settings.slot, failover=settings.failover, replaces_lost=replaces_lost)
        # A new slot starts where all earlier transactions are visible: rows that are read later include them.
        start = slot.confirmed
        # A slot that existed before may be old, and this mode begins with the present.
        if found is not None and not settings.reads_tables:
            start = max(start, self.newest(connection) or start)
        # The slot may also be older than the publication, and then lacks changes that are to be undone.
        if settings.reads_exactly:
            start = max(start, exact_position(connection))
        waiting = names if settings.reads_tables else ()
        # Rows in the log of a slot that existed before may lack columns that the tables have by now.
        is_behind = found is not None and not replaces_lost and bool(waiting) and not settings.reads_exactly
        identity = server_identity(connection)
        log.info("event=begins position=%s tables=%d mode=%s", lsn_text(start), len(names), settings.mode)
        begun = PgProgress(
            server=identity.system,
            database=identity.database,
            timeline=identity.timeline,
            slot=settings.slot,
            log=start,
            known=names,
            waiting=() if is_behind else waiting,
            versions=versions_of(connection, tables),
            reread="" if settings.reset else settings.rereads,
            batch=PgBatch(start),
        )
        begun = publication_noted(connection, settings, begun)
        return with_new(connection, begun, waiting) if is_behind else begun

    def reset(self, connection: PgConnection, progress: PgProgress, names: Sequence[TableName]) -> PgProgress:
        """Return a batch that empties the targets. The log is then read up to its present end without these tables.

        Their changes until then need not be readable, and their rows are read after that.
        """
        emptied = self._emptied(progress, names)
        if self.settings.reads_exactly:
            # Other tables that are read as of the present position must not be passed by the log. Those of `fresh` wait
            # for a later position themselves.
            if not set(emptied.unread) <= {*names, *progress.fresh}:
                return emptied
            position = exact_position(connection)
        else:
            position = reachable_end(connection)
        fresh = tuple(dict.fromkeys([*progress.fresh, *names]))
        # Commits before that position may not be visible yet.
        return replace(emptied, exact_from=position, fresh=fresh, visible_from=next_transaction(connection))

    def empty_batch(self, position: int, barriers: tuple[Barrier, ...] = ()) -> PgBatch:
        return PgBatch(position, (), barriers)

    def position_text(self, position: int) -> str:
        return lsn_text(position)

    def resumed(self, connection: PgConnection, progress: PgProgress) -> PgProgress:
        identity, slot = identity_and_slot(connection, progress.slot)
        if (identity.system, identity.database) != (progress.server, progress.database):
            raise ServerChanged(
                "another server answers at the address, and its log has other positions",
                before=f"{progress.server}/{progress.database}",
                now=f"{identity.system}/{identity.database}",
                hint="use the address of the former server, or start with --resnapshot",
            )
        if progress.timeline not in {0, identity.timeline}:
            require_same_past(connection, progress.timeline, identity.timeline, progress.log)
        require_written(connection, identity, progress.log)
        readable_slot(connection, progress.slot, slot, progress.log)
        progress = self._sample.compared(self.settings.server, identity, progress)
        return replace(progress, timeline=identity.timeline)

    def end(self) -> int:
        """Return the current end of the log."""
        with self.connected() as connection:
            found = self.newest(connection)
            return found or parse_lsn(str(connection.value("SELECT pg_current_wal_flush_lsn()")))

    def with_content(
        self, connection: PgConnection, progress: PgProgress, limit: Limit, until: int | None
    ) -> PgProgress:
        return self._sample.taken(connection, self._with_content(connection, progress, limit, until))

    def _with_content(
        self, connection: PgConnection, progress: PgProgress, limit: Limit, until: int | None
    ) -> PgProgress:
        start = progress.log
        tables = list_tables(connection)
        progress = noted(connection, self.settings, progress, tables)
        before, progress = progress, publication_noted(connection, self.settings, progress)
        if not self._is_published or progress != before:
            require_published(connection, self.settings, progress, tables)
            self._is_published = True
        passed = applied(self.settings, progress)
        if passed is not None:
            self.at_barrier = True
            return passed
        found = chosen(tables, self.settings)
        self.log_format.planned([table for table in found if table.has_key])
        includes = self.settings.tables.includes
        known = [table for table in tables if table.name in progress.known and includes(*table.name)]
        check_logged(connection, tables, known)
        # A table that is excluded before it was read as a whole is new when it is included again.
        names = {table.name for table in found}
        progress = forgotten(progress, [name for name in progress.unread if name not in names])
        progress = self._with_new_tables(connection, progress, found)
        if progress.batch.barriers:
            return progress
        # The log is planned before chunks are cut. Its part begins at the end of the batch before, so a commit that is
        # logged but not yet visible to the read of a chunk comes through the log.
        progress = self._with_log(connection, progress, limit, until)
        waits = (self.settings.reads_exactly or progress.fresh) and progress.log > start
        if progress.batch.barriers or not progress.reads_tables or waits:
            return progress
        # Both waits come before the chunks are cut: they are read in tasks right after this.
        wait_for_transactions(connection, progress.visible_from)
        wait_for_standbys(connection)
        progress = self.with_chunks(connection, replace(progress, visible_from=0), limit)
        as_of = progress.log if self.settings.reads_exactly else 0
        return replace(progress, batch=replace(progress.batch, as_of=as_of))

    def captured_tables(self, connection: PgConnection) -> Mapping[TableName, PgTableFacts]:
        return {table.name: table for table in captured(connection, self.settings)}

    def first_chunk(self, connection: PgConnection, table: PgTableFacts) -> KeyChunk | None:
        return first_chunk(connection, table)

    def cut_chunk(self, connection: PgConnection, rest: KeyChunk, rows: int) -> tuple[KeyChunk, KeyChunk | None]:
        return cut_chunk(connection, rest, rows)

    def check_part(self, connection: PgConnection, table: PgTableFacts, part: TablePart) -> None:
        relation = relations(connection, [table.oid]).get(table.oid)
        schema = check_key(None if relation is None else relation.source_schema, part)
        policy = PartRead(self.settings.language, part.where).demand(self.settings.demand)
        needed(policy, schema)
        if relation is not None:
            check_selected(connection, relation, policy)

    def _with_new_tables(
        self, connection: PgConnection, progress: PgProgress, tables: Sequence[PgTableFacts]
    ) -> PgProgress:
        # While tables are read as of a position, the log stays there. For a new table it has to continue first.
        if self.settings.reads_exactly and progress.reads_tables:
            return progress
        gone = {altered.name for altered in progress.altered if altered.kind == "drop"}
        check_keys([table for table in tables if table.name in progress.known and table.name not in gone])
        new = [table for table in tables if table.has_key and table.name not in progress.known]
        fresh = [table.name for table in new]
        if not fresh:
            return progress
        # The next start would refuse these, after rows of theirs have replaced each other.
        require_ready(list(ambiguous_keys(connection, new)))
        try:
            were_logged = not publish(connection, self.settings, fresh)
        except TableNotPublished as error:
            log.warning("event=tables_not_published tables=%s fix=%s", ",".join(map(".".join, fresh)), error.hint)
            return progress
        log.info("event=tables_added tables=%s", ",".join(map(".".join, fresh)))
        versions = {**progress.versions, **versions_of(connection, new)}
        progress = replace(progress, known=(*progress.known, *fresh), versions=versions)
        progress = publication_noted(connection, self.settings, progress)
        progress = self.without_outdated(progress, fresh)
        reads = self.settings.reads_new_tables
        if reads and self.settings.reads_exactly:
            position = exact_position(connection)
            return replace(progress, exact_from=position, fresh=tuple(fresh)).reading(fresh)
        # Rows that a running transaction changed before the table was published are in no log: they must be visible
        # before the table is read.
        progress = replace(progress, visible_from=next_transaction(connection))
        if reads and were_logged:
            return with_new(connection, progress, fresh)
        return progress.reading(fresh) if reads else progress

    def _with_log(self, connection: PgConnection, progress: PgProgress, limit: Limit, until: int | None) -> PgProgress:
        if progress.log >= progress.exact_from:
            progress = replace(progress, exact_from=0, fresh=())
            if self.settings.reads_exactly and progress.reads_tables:
                return progress  # the log waits until the tables are read
        if progress.exact_from:
            until, batch = progress.exact_from, replace(progress.batch, without=progress.fresh)
            end = min(until, progress.log + (wanted_bytes(limit) or self.settings.log_bytes))
            return self._before_truncate(connection, replace(progress, log=end, batch=batch))
        end = self._log_end.of_batch(connection, progress, limit, until)
        return self._before_truncate(connection, replace(progress, log=end))

    def _before_truncate(self, connection: PgConnection, progress: PgProgress) -> PgProgress:
        """Return the batch cut before a transaction with TRUNCATE; a batch of its own empties the tables."""
        start = progress.batch.start
        if not self.settings.follows_truncate or progress.log <= start:
            return progress
        applied = start if progress.emptied else 0
        tables = set(progress.known) - set(progress.batch.without)
        partitions = LoggedPartitions()
        found = next_truncate(self.settings, tables, start, progress.log, applied, partitions)
        progress = with_gone(connection, self.settings, progress, partitions.found)
        batch = replace(progress.batch, emptied=progress.emptied)
        if found is None:
            return replace(progress, batch=batch, emptied=())
        self.at_barrier = True
        if found.position > start:
            return replace(progress, log=found.position, batch=batch, emptied=())
        log.info("event=tables_emptied position=%s", lsn_text(start))
        empty = tuple(Barrier("truncate", schema, table) for schema, table, _ in found.tables)
        return replace(progress, log=start, emptied=found.tables, batch=PgBatch(start, (), empty))

    def newest(self, connection: PgConnection) -> int | None:
        return self._log_end.newest(connection)
