"""The size of batches while a transaction of the server stays open for a long time.

The server decodes the log from the beginning of the oldest transaction that was open, once for each batch. Batches of
the same size would then advance less and less per second, until the pipeline falls behind for as long as the
transaction lasts.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.ingest.postgres.server.lsn import lsn_text
from penstock.ingest.postgres.server.slot import slot_facts

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection

log = logging.getLogger(__name__)
_SHOWN_FROM_BYTES = 1 << 30
_PAUSE_S = 600.0
_FIX = (
    "a transaction has been open since then, and each batch decodes the log from there; "
    "SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start finds it"
)


@dataclass(slots=True)
class LogBatchSize:
    """The size of batches that read a slot."""

    slot: str
    _shown_at: float = field(default=float("-inf"), repr=False)

    def of_batch_at(self, connection: PgConnection, start: int, usual: int) -> int:
        """Return the most bytes of log for a batch from this position: at least what is decoded again for it.

        So at least half of what the server decodes is new, however long the transaction lasts.
        """
        slot = slot_facts(connection, self.slot)
        oldest = start if slot is None or slot.restart is None else slot.restart
        again = max(0, start - oldest)
        if again >= _SHOWN_FROM_BYTES and time.monotonic() - self._shown_at >= _PAUSE_S:
            self._shown_at = time.monotonic()
            log.warning(
                "event=log_decoded_again slot=%s from=%s bytes=%d note=%s", self.slot, lsn_text(oldest), again, _FIX
            )
        return max(usual, again)
