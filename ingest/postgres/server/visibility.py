"""Waits until commits of the log are visible to the statements that read tables."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.libpq_stream import check
from penstock.ingest.postgres.server.lsn import MESSAGE, reachable_end
from penstock.ingest.postgres.server.refusals import refused
from penstock.ingest.postgres.server.silence import ServerRefused

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection

log = logging.getLogger(__name__)
_LONGEST_S, _PAUSE_S = 60.0, 0.1
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
_COMMIT = f"SELECT {MESSAGE}"
_STANDBYS = (
    "SELECT current_setting('synchronous_standby_names') <> '', pg_has_role('pg_read_all_stats', 'USAGE'), "
    "current_setting('synchronous_commit') = 'remote_apply'"
)


def wait_for_standbys(connection: PgConnection) -> None:
    """Wait until no session waits for a synchronous standby: its commit is logged before its rows are visible."""
    has_standbys, sees_sessions, applies = (text == "t" for text in connection.rows(_STANDBYS)[0])
    if not has_standbys:
        return
    if not sees_sessions:
        _wait_for_own_commit(connection, "remote_apply" if applies else "on")
        return
    began, warned = time.monotonic(), False
    while connection.value(_WAITING) != "0":
        if not warned:
            log.warning("event=waits_for_standby reason=commits are logged that are not visible yet")
            warned = True
        if time.monotonic() > began + _LONGEST_S:
            raise _standby_away(connection)
        time.sleep(_PAUSE_S)


def _wait_for_own_commit(connection: PgConnection, level: str) -> None:
    """Commit, and wait for the standby as others do: the server ends these waits in the order of the log.

    The sessions of other users cannot be asked for without the rights of pg_read_all_stats.
    """
    with connected(connection.server) as own:
        own.rows(f"SET synchronous_commit = {level}")
        own.raw.send_query(_COMMIT.encode())
        until = time.monotonic() + _LONGEST_S
        while own.raw.is_busy():
            if time.monotonic() > until:
                own.raw.get_cancel().cancel()  # otherwise the server keeps the session until the standby is back
                raise _standby_away(connection)
            time.sleep(_PAUSE_S)
            own.raw.consume_input()
        try:
            check(own.raw.get_result())
        except ServerRefused as error:
            raise refused(own.server, error.state, error.text, _COMMIT) from error
    # The sessions whose waits have ended make their rows visible a moment later.
    time.sleep(_PAUSE_S)


def _standby_away(connection: PgConnection) -> SourceError:
    return SourceError(
        "commits wait for a synchronous standby, so that their rows cannot be read yet",
        retryable=True,
        waited=f"{_LONGEST_S:g} s",
        server=connection.server.where,
        hint="bring the standby back, or change synchronous_standby_names",
    )


# In seconds, for transactions that run since before a table was published.
_LONGEST_TRANSACTION_S = 600.0
_OLDEST_AND_NEXT = "SELECT pg_snapshot_xmin(now_), pg_snapshot_xmax(now_) FROM pg_current_snapshot() AS now_"


def next_transaction(connection: PgConnection) -> int:
    """Return the number that the server gives to the next transaction."""
    return int(str(connection.value("SELECT pg_snapshot_xmax(pg_current_snapshot())")))


def wait_for_transactions(connection: PgConnection, before: int) -> None:
    """Wait until every transaction before this one has ended."""
    began, warned = time.monotonic(), False
    while before and _runs_older(connection, before):
        if not warned:
            log.warning("event=waits_for_transactions reason=they run since before a table was published")
            warned = True
        if time.monotonic() > began + _LONGEST_TRANSACTION_S:
            raise SourceError(
                "a transaction runs since before a table was added to the publication",
                retryable=True,
                waited=f"{_LONGEST_TRANSACTION_S:g} s",
                hint="SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL;  end it",
            )
        time.sleep(_PAUSE_S)


def _runs_older(connection: PgConnection, before: int) -> bool:
    """Return whether a transaction with a smaller number may run.

    A server that crashed may give numbers again that were in no flushed log. `before` may then be higher than its next
    number, and stays so while nothing is written. If no transaction runs, all that ran at the crash have ended.
    """
    oldest, next_ = (int(str(number)) for number in connection.rows(_OLDEST_AND_NEXT)[0])
    return oldest < before and oldest != next_


def exact_position(connection: PgConnection) -> int:
    """Return a position of the log at which all tables published now can be read.

    The log has all changes of these tables after the position, and all earlier ones are visible.
    """
    wait_for_transactions(connection, next_transaction(connection))
    position = reachable_end(connection)
    # A commit is logged a moment before it is visible.
    wait_for_transactions(connection, next_transaction(connection))
    return position
