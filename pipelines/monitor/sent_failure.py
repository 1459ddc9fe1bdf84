"""The failure that was sent to the webhook last, kept in the checkpoint.

A supervisor starts a pipeline that fails again and again, and each start is a process of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.failure_facts import failure_facts

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SentFailure:
    folder: CheckpointFolder
    clock: Callable[[], float] = time.time

    def is_new(self, error: BaseException, at_most_every: float) -> bool:
        """Return whether the failure is to be sent, and note it: it is another one than the last, or that is old.

        It is new if the checkpoint cannot be read or written.
        """
        text, now = failure_facts(error)["error"], self.clock()
        try:
            last = self.folder.sent_failure() or {}
            age = now - float(last.get("at", 0))
            # A clock that was set back must not keep events away.
            if last.get("error") == text and 0 <= age < at_most_every:
                log.info("event=notification_left_out kind=failed sent_before_seconds=%d", age)
                return False
            self.folder.put_sent_failure({"error": text, "at": now})
        except (PenstockError, OSError, pa.ArrowException, ValueError) as reason:
            log.warning("event=failure_not_noted reason=%s", reason)
        return True
