"""The server and the timeline that a connection leads to. A promoted standby begins a new timeline.

So does a backup that is restored to a point in time. A copy of the server's files or of its disk does not: the server
continues on its timeline from an earlier position, and a sample of the log shows it (`log_sample.py`).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.patience import patience_seconds
from penstock.ingest.postgres.errors import Diverged
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.lsn import lsn_text, parse_lsn
from penstock.ingest.postgres.server.slot import SLOT_COLUMNS, SlotFacts, slot_of

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection, Row

log = logging.getLogger(__name__)
_PAUSE_S = 0.5
# On a standby the functions of the last columns fail.
_QUERY = (
    "SELECT system_identifier, current_database(), pg_postmaster_start_time(), pg_walfile_name(written), written "
    "FROM pg_control_system(), "
    "LATERAL (SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END AS written) AS log"
)
_TIMELINE_DIGITS = 8  # of the name of a WAL file


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The identifier of a server and its copies, the database, the timeline that the server writes, and its end.

    `started` is when the server began to run.
    """

    system: str
    database: str
    timeline: int
    end: int
    started: str = ""


def server_identity(connection: PgConnection) -> ServerIdentity:
    """Return the identity of a primary. A standby may be about to be promoted: wait for that as for a connection."""
    return _identity(connection, _QUERY)[0]


def identity_and_slot(connection: PgConnection, slot: str) -> tuple[ServerIdentity, SlotFacts | None]:
    """Return the identity of a primary, as `server_identity` does, and the slot of this name, if there is one."""
    query = (
        f"SELECT i.*, {SLOT_COLUMNS} FROM ({_QUERY}) AS i LEFT JOIN pg_replication_slots "
        f"ON slot_name = {connection.literal(slot)}"
    )
    identity, rest = _identity(connection, query)
    return identity, slot_of(rest)


def _identity(connection: PgConnection, query: str) -> tuple[ServerIdentity, Row]:
    """Return the identity of a primary, and the columns of the query after those of the identity."""
    began, waits = time.monotonic(), False
    while True:
        system, database, started, file, end, *rest = connection.rows(query)[0]
        if file is not None:
            timeline = int(file[:_TIMELINE_DIGITS], 16)
            found = ServerIdentity(str(system), str(database), timeline, parse_lsn(str(end)), str(started))
            return found, tuple(rest)
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


def require_same_server(connection: PgConnection, other: ServerIdentity) -> None:
    """Raise ConnectionLost if another connection, which was checked, leads to a server that this one does not lead to.

    An address may lead to another server from one moment to the next, and the former one may still answer.
    """
    identity = server_identity(connection)
    if (identity.system, identity.timeline, identity.started) != (other.system, other.timeline, other.started):
        raise ConnectionLost(
            "two connections lead to two servers: the address was moved to another one",
            retryable=True,
            server=connection.server.where,
            timelines=f"{other.timeline}, {identity.timeline}",
            hint="check that one server only answers at the address",
        )


def require_read(connection: PgConnection, system: str, timeline: int, position: int) -> None:
    """Raise ConnectionLost if rows of this server may lack changes up to the position, which were read from another.

    The address may lead to several servers, or to another one from one moment to the next. A standby, and a primary
    after which another one was promoted, have older rows, whose changes are not read again.
    """
    identity = server_identity(connection)
    if identity.system != system or identity.timeline < timeline or identity.end < position:
        raise ConnectionLost(
            "a table would be read on another server than its changes, which lacks some of them",
            retryable=True,
            server=connection.server.where,
            timelines=f"{timeline}, {identity.timeline}",
            position=lsn_text(position),
            end=lsn_text(identity.end),
            hint="check that one server only answers at the address",
        )


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


def require_written(connection: PgConnection, identity: ServerIdentity, position: int) -> None:
    """Raise Diverged if the log of the server ends before the position, up to which it was read.

    The pipeline would wait until the log is as long again, and leave out the changes until then.
    """
    if position > identity.end:
        raise Diverged(
            "the server's log ends before the position of the pipeline: the server was restored from a backup, has "
            "lost the end of its log, or another copy of it answers at the address",
            server=connection.server.where,
            position=lsn_text(position),
            end=lsn_text(identity.end),
            hint="tables may have rows that the server lacks: start with --resnapshot",
        )


def _end_of_timeline(connection: PgConnection, before: int, now: int) -> int | None:
    """Return where the former timeline ended in the history of the present one, None if it is not part of it."""
    with connected(connection.server, replication=True) as stream:
        content = str(stream.rows(f"TIMELINE_HISTORY {now}")[0][1])
    for line in content.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == str(before):
            return parse_lsn(words[1])
    return None
