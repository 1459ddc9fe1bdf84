"""Commits that are in the log, but not yet visible to queries."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from penstock.errors import SourceError

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection

log = logging.getLogger(__name__)
_LONGEST_S, _PAUSE_S = 60.0, 0.1
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND "
    "current_setting('synchronous_standby_names') <> ''"
)


def wait_for_standbys(connection: PgConnection) -> None:
    """Wait until no session waits for a synchronous standby: its commit is logged before its rows are visible.

    Sessions of other users are seen with the rights of pg_read_all_stats only.
    """
    began, told = time.monotonic(), False
    while connection.value(_WAITING) != "0":
        if not told:
            log.warning("event=waits_for_standby reason=commits are logged that are not visible yet")
            told = True
        if time.monotonic() > began + _LONGEST_S:
            raise SourceError(
                "commits wait for a synchronous standby, so that their rows cannot be read yet",
                retryable=True,
                waited=f"{_LONGEST_S:g} s",
                hint="bring the standby back, or change synchronous_standby_names",
            )
        time.sleep(_PAUSE_S)
