"""The position in the binlog at which a pipeline without a checkpoint starts, or starts again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog.log_sample import with_sample
from penstock.ingest.mysql.binlog.resume import check_position, resume
from penstock.ingest.mysql.binlog.server_positions import at_time, earliest, latest, settled
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.settings import FollowSettings

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts


def first_position(settings: FollowSettings, connection: Connection, facts: ServerFacts) -> LogPosition:
    """Return the position that the startup mode names, with a sample of the log before it."""
    return with_sample(settings.server, _by_mode(settings, connection, facts), settings.server_id(-1))


def present_position(settings: FollowSettings, connection: Connection, facts: ServerFacts) -> LogPosition:
    """Return the present end of the binlog, with a sample of the log before it."""
    return with_sample(settings.server, _settled(settings, connection, facts), settings.server_id(-1))


def _by_mode(settings: FollowSettings, connection: Connection, facts: ServerFacts) -> LogPosition:
    startup = settings.startup
    match startup.mode:
        case "earliest-offset":
            return earliest(connection, facts)
        case "timestamp":
            return at_time(settings.server, connection, facts, startup.millis, settings.server_id(-1))
        case "specific-offset" if startup.file:
            start = LogPosition(startup.file, startup.pos, startup.gtid)
            check_position(connection, start)
            return start
        case "specific-offset":
            oldest = earliest(connection, facts)
            return resume(connection, facts, replace(oldest, gtid=startup.gtid), "set by its GTID set").start
        case "latest-offset":
            return latest(connection, facts)
    return _settled(settings, connection, facts)


def _settled(settings: FollowSettings, connection: Connection, facts: ServerFacts) -> LogPosition:
    return settled(connection, facts, settings.server, settings.server_id(-1))
