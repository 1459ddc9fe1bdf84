"""Which server and which of its timelines a connection leads to. A promoted standby begins a new timeline."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.ingest.patience import patience_seconds
from penstock.ingest.postgres.errors import Diverged
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.lsn import lsn_text, parse_lsn

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection

log = logging.getLogger(__name__)
_PAUSE_S = 0.5
_QUERY = (
    "SELECT system_identifier, current_database(), CASE WHEN pg_is_in_recovery() THEN NULL "
    "ELSE pg_walfile_name(pg_current_wal_insert_lsn()) END FROM pg_control_system()"
)
_TIMELINE_DIGITS = 8  # of the name of a WAL file


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The identifier of a server and its copies, the database, and the timeline that the server writes."""

    system: str
    database: str
    timeline: int


def server_identity(connection: PgConnection) -> ServerIdentity:
    """Return the identity of a primary. A standby may be about to be promoted: wait for that as for a connection."""
    began, waits = time.monotonic(), False
    while True:
        system, database, file = connection.rows(_QUERY)[0]
        if file is not None:
            return ServerIdentity(str(system), str(database), int(file[:_TIMELINE_DIGITS], 16))
        if time.monotonic() >= began + patience_seconds(connection.server.patience):
            raise SourceError(
                "the server is a standby",
                retryable=True,
                server=connection.server.where,
                hint="promote it, or use the address of the primary",
            )
        if not waits:
            log.warning("event=waits_for_promotion server=%s", connection.server.where)
        waits = True
        time.sleep(_PAUSE_S)


def require_same_past(connection: PgConnection, before: int, now: int, position: int) -> None:
    """Raise Diverged if the log up to the position, read on one timeline, is not all part of the other one."""
    switch = _end_of_timeline(connection, before, now)
    if switch is None or position > switch:
        raise Diverged(
            "the server was promoted, and never had the end of the log that the pipeline has read",
            server=connection.server.where,
            position=lsn_text(position),
            promoted_at=None if switch is None else lsn_text(switch),
            timeline_before=before,
            timeline_now=now,
            hint="tables may have rows that the server lacks: start with --resnapshot. synchronized_standby_slots "
            "(version 17 and newer) keeps readers behind the standby",
        )
    log.warning("event=promoted server=%s timeline=%d at=%s", connection.server.where, now, lsn_text(switch))


def _end_of_timeline(connection: PgConnection, before: int, now: int) -> int | None:
    """Return where the former timeline ended in the history of the present one, None if it is not part of it."""
    with connected(connection.server, replication=True) as stream:
        content = str(stream.rows(f"TIMELINE_HISTORY {now}")[0][1])
    for line in content.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == str(before):
            return parse_lsn(words[1])
    return None
