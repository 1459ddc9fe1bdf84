"""A pipeline that resumes: on the same server or another, and with tables that match since it stopped."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog.log_sample import require_same_log
from penstock.ingest.mysql.binlog.resume import Resume, resume
from penstock.ingest.mysql.binlog.server_positions import earliest
from penstock.ingest.mysql.captured_tables import captured_facts
from penstock.ingest.mysql.errors import BinlogPurged
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.recorded_history import RecordedHistory
from penstock.ingest.mysql.server.catalog import definitions
from penstock.ingest.mysql.settings import FollowSettings

if TYPE_CHECKING:
    from penstock.ingest.mysql.ddl.history import SchemaHistory
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

log = logging.getLogger(__name__)


def resumed_progress(
    settings: FollowSettings, connection: Connection, facts: ServerFacts, progress: Progress
) -> tuple[Progress, bool]:
    """Return the progress at its place in this server's log, and whether that was found by GTIDs."""
    try:
        resumed = resume(connection, facts, progress.log, progress.server)
    except BinlogPurged as error:
        if not settings.accept_gap:
            raise
        progress = replace(progress, log=earliest(connection, facts), server=facts.uuid)
        log.warning("event=gap_accepted lost_from=%s goes_on=%s", error.facts.get("position"), progress.log)
        resumed = Resume(progress.log, by_gtid=False)
    if facts.uuid == progress.server and resumed.start == progress.log:
        require_same_log(settings.server, progress.log, settings.server_id(-1))
    if resumed.start != progress.log:
        log.info("event=purged_but_read position=%s goes_on=%s", progress.log, resumed.start)
        progress = replace(progress, log=resumed.start)
    return progress, resumed.by_gtid


def moved_to_server(history: SchemaHistory, facts: ServerFacts, progress: Progress) -> Progress:
    """Return the progress on another server, whose binlog has another order.

    The definitions known now are valid from the very beginning of its binlog.
    """
    log.warning("event=another_server before=%s now=%s gtid=%s", progress.server, facts.uuid, progress.log.gtid)
    known = [table for table in history.tables.known.values() if history.was_captured(table.name)]
    history.tables.known.clear()
    history.versions.clear()
    history.unsaved.clear()
    history.start(known, beginning_of(facts))
    # Two servers may have begun files of one name in the same second: the place is one in the other server's file.
    log_position = replace(progress.log, begun=0, sample=None)
    return replace(progress, server=facts.uuid, log=log_position, by_gtid=True)


def beginning_of(facts: ServerFacts) -> LogPosition:
    """Return a position before all others of a server: file number 0 sorts before every file."""
    return LogPosition(f"{facts.uuid}.0", 0)


def with_added_tables(
    connection: Connection, recorded: RecordedHistory, history: SchemaHistory, progress: Progress, at: LogPosition
) -> Progress:
    """Record tables that match since the stop as defined at this position, and return the progress that reads them."""
    settings = recorded.settings
    fresh = [table.name for table in captured_facts(connection, settings) if not history.was_captured(table.name)]
    if fresh:
        # A table left out so far may have been altered after this position; its tracked definition is the right
        # one.
        before = {name: history.tables.known[name] for name in fresh if name in history.tables.known}
        history.start({**definitions(connection, fresh), **before}.values(), at)
    recorded.note_others(connection, history, at)
    recorded.store(progress.server)
    if fresh and settings.new_tables and settings.reads_tables:
        log.info("event=tables_added tables=%s", ",".join(map(".".join, fresh)))
        progress = progress.reading(fresh).lacking_prepared(fresh)
    return progress
