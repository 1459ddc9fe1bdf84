"""The position at which the next batch ends in the log.

The server decodes the log from the beginning of the oldest transaction that was open, once for each batch. While one
stays open for long, batches of the same size would advance less and less per second, until the pipeline falls behind
for as long as the transaction lasts. So they grow then.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.ingest.database.settings import BYTES_PER_CHANGE
from penstock.ingest.postgres.log.quiet_log import QuietLog, may_have_changes
from penstock.ingest.postgres.server.lsn import flushed_end, lsn_text
from penstock.ingest.postgres.server.slot import slot_facts

if TYPE_CHECKING:
    from penstock.ingest.postgres.offsets import PgProgress
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.settings import PgSettings
    from penstock.ingest.source import Limit

log = logging.getLogger(__name__)
_SHOWN_FROM_BYTES = 1 << 30
_PAUSE_S = 600.0
_FIX = (
    "a transaction has been open since then, and each batch decodes the log from there; "
    "SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start finds it"
)


@dataclass(slots=True)
class LogEnd:
    """The ends of batches that read a slot."""

    settings: PgSettings
    quiet: QuietLog
    _position: int = field(default=0, repr=False)  # seen before, and flushed by now
    _shown_at: float = field(default=float("-inf"), repr=False)

    def newest(self, connection: PgConnection) -> int | None:
        """Return the end of the log as of now. If it is not flushed, the one before is still valid."""
        found = flushed_end(connection)
        if found is not None:
            self._position = found
        return self._position or None

    def of_batch(self, connection: PgConnection, progress: PgProgress, limit: Limit, until: int | None) -> int:
        """Return the end of the batch that begins where the progress is. A bounded run reads no further than `until`.

        The batch is empty if the log has nothing new, or if it waits because it would only move the position.
        """
        found = self.newest(connection)
        if found is None:
            return progress.log
        # A change of a table is acted on once the log has passed it, also in a bounded run.
        settle = max([progress.settle, *(altered.position for altered in progress.altered)])
        may_wait = until is None and not progress.reads_tables and settle <= progress.log
        # While tables are read, the position at which they are consistent is not known yet, so a bounded run
        # continues.
        if progress.reads_tables or until is None:
            until = found
        # Rows of a snapshot are right once the log has passed the time when they were read.
        end = min(found, max(until, settle))
        end = min(end, progress.log + self._most_bytes(connection, progress.log, end, limit))
        if end <= progress.log:
            return progress.log
        # Before the end of the log, the next batch may have changes.
        if may_wait and end == found and self._waits(connection, progress.log, end):
            return progress.log
        self.quiet.moved()
        return end

    def _waits(self, connection: PgConnection, start: int, end: int) -> bool:
        return self.quiet.holds(lambda: may_have_changes(connection, self.settings, start, end))

    def _most_bytes(self, connection: PgConnection, start: int, end: int, limit: Limit) -> int:
        """Return the most bytes of log for a batch from this position: at least half of what is decoded again for it.

        So a part of what the server decodes is new, however long the transaction lasts. Without a transaction, a slot
        restarts about a batch before its confirmed position, which is a batch behind itself: with all of that, each
        batch of a backlog would be larger than the one before.
        """
        wanted, usual = wanted_bytes(limit), self.settings.log_bytes
        if wanted or end - start <= usual:
            return wanted or usual
        slot = slot_facts(connection, self.settings.slot)
        if slot is None or slot.restart is None:
            return usual
        oldest, again = slot.restart, max(0, slot.confirmed - slot.restart)
        if again >= _SHOWN_FROM_BYTES and time.monotonic() - self._shown_at >= _PAUSE_S:
            self._shown_at = time.monotonic()
            log.warning(
                "event=log_decoded_again slot=%s from=%s bytes=%d note=%s",
                self.settings.slot,
                lsn_text(oldest),
                again,
                _FIX,
            )
        return max(usual, again // 2)


def wanted_bytes(limit: Limit) -> int:
    """Return the bytes of log that the user wants in a batch at most; 0 if the user has set no limit."""
    return limit.bytes or (limit.rows or 0) * BYTES_PER_CHANGE
