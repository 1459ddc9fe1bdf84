"""The sample of the log that the offsets of a pipeline have: compared after a restart, then read again.

No plan fails because a sample cannot be taken or compared: a server may refuse it, close the connection, or have none
left for readers of the log. The sample stays then, and a later plan tries again. The task that reads the log compares
it as well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.errors import PositionLost, SourceError
from penstock.ingest.patience import patience
from penstock.ingest.postgres.server.log_sample import require_same_log, sample_before
from penstock.ingest.postgres.server.lsn import lsn_text

if TYPE_CHECKING:
    from penstock.ingest.postgres.offsets import PgProgress
    from penstock.ingest.postgres.server.address import PgAddress
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.server.log_sample import LogSample
    from penstock.ingest.postgres.server.server_identity import ServerIdentity

log = logging.getLogger(__name__)
# Until the next attempt, after an error and after a server did not show its log.
_PAUSE_S, _REFUSED_S = 60.0, 3600.0
_LATER = "a later batch tries again whether the server was restored from a copy of its disk"


@dataclass(slots=True)
class KeptSample:
    """The attempts of a planner to compare and to take samples."""

    clock: Callable[[], float] = time.monotonic
    _compares_at: float = field(default=float("-inf"), repr=False)
    _reads_at: float = field(default=float("-inf"), repr=False)
    _newest: tuple[int, LogSample] | None = None  # with its position, before which it may end
    _is_open: bool = False  # whether the server was started since, and may have another log

    def compared(self, server: PgAddress, identity: ServerIdentity, progress: PgProgress) -> PgProgress:
        """Return the state whose sample is of the server as it runs now. Raise Diverged if its log is another one."""
        sample = progress.sample
        self._is_open = sample is not None and sample.started != identity.started
        if sample is None or not self._is_open or self.clock() < self._compares_at:
            return progress
        try:
            with patience(0):
                require_same_log(server, identity, sample)
        except PositionLost:
            raise
        except SourceError as error:
            self._failed(progress, error)
            return progress
        self._is_open = False
        return replace(progress, sample=replace(sample, started=identity.started))

    def taken(self, connection: PgConnection, progress: PgProgress) -> PgProgress:
        """Return the state with a sample of the log before its position."""
        before = progress.sample
        is_taken = before is not None and (before.last == progress.log or self._newest == (progress.log, before))
        if is_taken or self._is_open or self.clock() < self._reads_at:
            return progress
        found = self._found(connection, progress)
        if found is None:
            return progress
        self._newest = progress.log, found
        return replace(progress, sample=found)

    def _found(self, connection: PgConnection, progress: PgProgress) -> LogSample | None:
        try:
            with patience(0):
                found = sample_before(connection, progress.log, progress.timeline)
        except SourceError as error:
            self._failed(progress, error)
            return None
        if found is None:
            self._reads_at = self.clock() + _REFUSED_S
        return found

    def _failed(self, progress: PgProgress, error: SourceError) -> None:
        self._compares_at = self._reads_at = self.clock() + _PAUSE_S
        reason = error.facts.get("reason", error.message)
        log.warning("event=log_not_compared position=%s reason=%s note=%s", lsn_text(progress.log), reason, _LATER)
