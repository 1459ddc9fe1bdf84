"""The plan of the next batch: chunks of tables still to be read, and the binlog from the end of the last batch.

Within a batch, snapshot rows are ordered before binlog rows, but they are read after the batch was planned. The binlog
that follows may therefore set a row back to an older state for a moment; once the binlog has passed the time of the
snapshot read, the table is right.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.errors import PositionLost
from penstock.ingest.database.findings import log_warnings
from penstock.ingest.database.requested_tables import log_reread
from penstock.ingest.database.settings import BYTES_PER_CHANGE
from penstock.ingest.mysql.binlog.log_plan import LogPlan, PlanLimits
from penstock.ingest.mysql.binlog.plan import plan_log
from penstock.ingest.mysql.binlog.server_positions import await_visible, latest
from penstock.ingest.mysql.captured_tables import captured_facts, with_chunks, with_requests
from penstock.ingest.mysql.emptied_tables import with_emptied, with_emptied_released
from penstock.ingest.mysql.errors import GtidDiverged
from penstock.ingest.mysql.first_position import first_position, present_position
from penstock.ingest.mysql.idle_position import IdlePosition
from penstock.ingest.mysql.logged_ddl_rules import LoggedDdlRules
from penstock.ingest.mysql.lone_commits import check_lone_commits
from penstock.ingest.mysql.offsets import BatchContent, Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.recorded_history import RecordedHistory
from penstock.ingest.mysql.resumed_progress import (
    beginning_of,
    moved_to_server,
    resumed_progress,
    with_added_tables,
)
from penstock.ingest.mysql.server.connection import connected, server_facts, variables
from penstock.ingest.mysql.server.table_checks import cascades
from penstock.ingest.mysql.settings import FollowSettings
from penstock.ingest.mysql.unlogged_columns import filled_columns, rewritten_in, tables_with_mixed_columns, with_filled
from penstock.ingest.source import Barrier, Limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

log = logging.getLogger(__name__)

_RANGE_BYTES = 8 << 20


@dataclass(slots=True)
class Planner:
    """The planner of batches. Lives in the planner process as long as a query runs, and holds the schema history.

    `at_barrier` is true if the last planned batch ends before a change of a whole table, or applies one.
    """

    settings: FollowSettings
    at_barrier: bool = False
    recorded: RecordedHistory = field(init=False, repr=False)
    _facts: ServerFacts | None = field(default=None, repr=False)
    _named_from: LogPosition | None = field(default=None, repr=False)
    _idle: IdlePosition = field(init=False, repr=False)
    _warned: set[str] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        self.recorded = RecordedHistory(self.settings)
        self._idle = IdlePosition(self.settings.idle_seconds)

    def begin(self) -> Progress:
        """Return the start of a pipeline without a checkpoint, with its tables' definitions recorded as of there."""
        with connected(self.settings.server) as connection:
            facts = server_facts(connection)
            start = first_position(self.settings, connection, facts)
            tables = captured_facts(connection, self.settings)
            self.recorded.begin(connection, facts, [table.name for table in tables], start)
            self._facts = facts
        names = tuple(table.name for table in tables)
        waiting = names if self.settings.reads_tables else ()
        log.info("event=begins position=%s tables=%d mode=%s", start, len(names), self.settings.startup.mode)
        by_gtid = self.settings.startup.mode == "specific-offset" and not self.settings.startup.file
        # A new pipeline reads all tables anyway, so a request for all is carried out by this. A request for single
        # tables is not: their targets are emptied first.
        granted = "" if self.settings.reset else self.settings.rereads
        return Progress(facts.uuid, start, by_gtid=by_gtid, waiting=waiting, reread=granted, prepared=())

    def _restart(self, connection: Connection, facts: ServerFacts) -> Progress:
        """Return a new start at the current binlog end, with a batch that empties all tables.

        All tables are then read again.
        """
        start, tables = present_position(self.settings, connection, facts), captured_facts(connection, self.settings)
        names = tuple(table.name for table in tables)
        self.recorded.begin(connection, facts, names, start)
        self._facts = facts
        log.info("event=tables_read_again tables=%s position=%s", ",".join(map(".".join, names)), start)
        empty = tuple(Barrier("read-again", *name) for name in names)
        self.at_barrier = True
        reread, resets = self.settings.rereads, self.settings.requests.resets()
        batch = BatchContent(barriers=empty)
        return Progress(facts.uuid, start, waiting=names, signals=resets, reread=reread, prepared=(), batch=batch)

    def _emptied(self, progress: Progress, names: Sequence[TableName], end: LogPosition) -> Progress:
        """Return a batch that empties the targets of some tables.

        Their rows are then read again while the binlog continues after `end`, where it ends now.
        """
        log_reread(names)
        empty = BatchContent(barriers=tuple(Barrier("read-again", *name) for name in names))
        self.at_barrier = True
        return replace(with_emptied(progress, names, end), reread=self.settings.rereads or progress.reread, batch=empty)

    def end(self) -> LogPosition:
        with connected(self.settings.server) as connection:
            return latest(connection, server_facts(connection))

    def next(self, before: Progress, limit: Limit, until: LogPosition | None) -> Progress | None:
        """Return the end of the batch after `before`, with its content; None if there is nothing to do."""
        self.at_barrier = False
        if self.recorded.plans_from(before):
            self._facts = None
        with connected(self.settings.server) as connection:
            facts = server_facts(connection)
            if self.settings.is_requested(before.reread) and not self.settings.reset:
                return self._restart(connection, facts)
            try:
                return self._next(connection, facts, before, limit, until)
            except PositionLost as error:
                if not self.settings.rereads_when_lost:
                    raise
                log.warning("event=position_lost reason=%s position=%s", error.message, before.log)
                return self._restart(connection, facts)

    def _next(
        self, connection: Connection, facts: ServerFacts, before: Progress, limit: Limit, until: LogPosition | None
    ) -> Progress | None:
        progress = self._checked(connection, facts, replace(before, batch=BatchContent()))
        history = self.recorded.at(progress)
        progress, emptied = with_requests(self.settings, connection, progress)
        asked = self.settings.reset if self.settings.is_requested(before.reread) else ()
        if asked or emptied:
            return self._emptied(progress, tuple(dict.fromkeys([*asked, *emptied])), latest(connection, facts))
        progress = with_emptied_released(self.settings, progress)
        # The chunks of the last batch have been read by now: the tables are right once the log has passed this
        # position.
        if progress.unsettled:
            progress = replace(progress, settle=latest(connection, facts), unsettled=False)
        if not progress.reads_tables and _is_reached(progress, until):
            return None if progress == replace(before, batch=BatchContent()) else progress
        rules, start = LoggedDdlRules(self.settings, history), progress
        plan = self._log_plan(progress, limit, until, rules)
        check_lone_commits(self.settings, progress, plan, lambda: self._captured(connection))
        self.at_barrier = plan.at_barrier
        if plan.adds_cascade:
            self._warn_of_cascades(connection, facts)
        looked_up = self.recorded.looked_up(connection, plan, history)
        # Before the offsets that rely on them are stored. After a crash in between, the plan finds them again.
        self.recorded.store(progress.server)
        filled = filled_columns(connection, facts, self.settings, history, rules.versions(plan, looked_up))
        rewritten = rewritten_in(self.settings, history, rules.defined(plan))
        mixed = tables_with_mixed_columns(self.settings, progress, plan, {**filled, **rewritten})
        progress = rules.applied(progress, plan, looked_up)
        if not progress.batch.barriers and progress.reads_tables and progress.emptied_at is None:
            self._await_visible(connection, facts, start)
            progress = with_chunks(self.settings, connection, progress, limit, before.log)
        # After this batch's part of the binlog.
        progress = progress.reading(mixed) if mixed else progress
        progress = with_filled(progress, filled, rewritten, without=mixed)
        if progress.batch.is_empty and replace(progress, batch=before.batch) == before:
            return None
        if until is None and not self.at_barrier and not progress.emptied and self._idle.holds(before, progress):
            return None
        self._idle.moved()
        return progress

    def _warn_of_cascades(self, connection: Connection, facts: ServerFacts) -> None:
        """Warn of the foreign keys that the checks before the first batch could not see, of each once."""
        tables = self._captured(connection)
        found = [finding for finding in cascades(connection, facts, tables) if str(finding) not in self._warned]
        log_warnings(found)
        self._warned.update(map(str, found))

    def _captured(self, connection: Connection) -> list[TableName]:
        return [table.name for table in captured_facts(connection, self.settings)]

    def _await_visible(self, connection: Connection, facts: ServerFacts, start: Progress) -> None:
        """Wait until a chunk shows the transactions of former batches; within a batch, rows of the log win."""
        if not (start.by_gtid and facts.is_mariadb):  # else the position is one of another server
            await_visible(connection, facts, start.log, self.settings.server, self.settings.server_id(-1))

    def _checked(self, connection: Connection, facts: ServerFacts, progress: Progress) -> Progress:
        """Check the position after a restart, and if another server answers at the address, before the log is read."""
        if self._facts is None or facts.uuid != progress.server:
            return self._returned(connection, facts, progress)
        return progress

    def _returned(self, connection: Connection, facts: ServerFacts, progress: Progress) -> Progress:
        """Resume on the same server or another after a restart, and add tables that match since the stop."""
        progress, by_gtid = resumed_progress(self.settings, connection, facts, progress)
        self._idle.forget()
        history = self.recorded.at(progress)
        if by_gtid:
            progress = moved_to_server(history, facts, progress)
        self._facts = facts
        at = beginning_of(facts) if by_gtid else progress.log
        return with_added_tables(connection, self.recorded, history, progress, at)

    def _log_plan(self, progress: Progress, limit: Limit, until: LogPosition | None, rules: LoggedDdlRules) -> LogPlan:
        if self.settings.snapshot == "exact" and progress.reads_tables and progress.emptied_at is None:
            if progress.by_gtid:
                raise _not_its_position(progress)
            # The binlog waits until the tables are read.
            return LogPlan((), progress.log, prepared=progress.prepared, lacking=progress.lacking)
        # The planner reads headers only and does not count rows, so a limit in rows is converted by an estimate.
        most = limit.bytes or self.settings.log_bytes
        if limit.rows is not None:
            most = min(most, limit.rows * BYTES_PER_CHANGE)
        # A bounded run continues to the position at which the rows read from tables are consistent. While tables
        # are read it is not known yet, and positions of another server cannot be compared with `until`.
        stop = None if progress.reads_tables or progress.by_gtid else _later(until, progress.settle if until else None)
        stop = progress.emptied_at or stop
        limits = PlanLimits(
            most,
            min(_RANGE_BYTES, max(1 << 16, most // 8)),
            stop,
            progress.by_gtid,
            progress.prepared,
            progress.lacking,
        )
        return plan_log(
            self.settings.server,
            self._idle.unread_from(progress),
            limits,
            self.settings.server_id(-1),
            rules.history,
            rules.is_barrier,
            self.settings.tables.includes,
        )

    def names_in_log(self, connection: Connection, start: LogPosition) -> bool:
        """Return whether the binlog contains column names from there on.

        The setting may be new, so names are certain only after the first position at which it was observed.
        """
        if variables(connection, "binlog_row_metadata").get("binlog_row_metadata") != "FULL":
            self._named_from = None
            return False
        self._named_from = self._named_from or latest(connection, server_facts(connection))
        return not start.is_before(self._named_from)


def _not_its_position(progress: Progress) -> GtidDiverged:
    return GtidDiverged(
        "the tables are read exactly as of a position of another server, which this server's binlog does not have",
        position=progress.log,
        server=progress.server,
        hint="connect to the former server until its tables are read, or read them all again (--resnapshot)",
    )


def _is_reached(progress: Progress, until: LogPosition | None) -> bool:
    if until is None or progress.by_gtid:
        return False
    target = _later(until, progress.settle)
    return target is not None and not progress.log.is_before(target)


def _later(position: LogPosition | None, other: LogPosition | None) -> LogPosition | None:
    if position is None or other is None:
        return position or other
    return other if position.is_before(other) else position
