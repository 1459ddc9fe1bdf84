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
# The errors of a checkpoint, its store or a file with other content that may keep a failure from being noted. The
# failure itself is raised.
NOT_NOTED = (PenstockError, OSError, pa.ArrowException, ValueError, TypeError)


@dataclass(frozen=True, slots=True)
class SentFailure:
    folder: CheckpointFolder
    clock: Callable[[], float] = time.time

    def is_new(self, error: BaseException, at_most_every: float) -> bool:
        """Return whether to send the failure: it differs from the last one that was sent, or that was sent long ago.

        It is new if the checkpoint cannot be read.
        """
        try:
            last = self.folder.sent_failure() or {}
            age = self.clock() - float(last.get("at", 0))
        except NOT_NOTED as reason:
            log.warning("event=failure_not_noted reason=%s", reason)
            return True
        # A clock that was set back must not keep events away.
        if last.get("error") != failure_facts(error)["error"] or not 0 <= age < at_most_every:
            return True
        log.info("event=notification_left_out kind=failed sent_before_seconds=%d", age)
        return False

    def note(self, error: BaseException) -> None:
        """Note that the failure was sent. A failure that cannot be noted is sent again."""
        try:
            self.folder.put_sent_failure({"error": failure_facts(error)["error"], "at": self.clock()})
        except NOT_NOTED as reason:
            log.warning("event=failure_not_noted reason=%s", reason)
