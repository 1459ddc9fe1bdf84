"""The position of a pipeline whose tables are quiet, while other tables of its server change.

A batch that would only move the position costs a job of Spark, so there is one at most every few seconds. In between
the planner remembers up to where the log has nothing to read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.ingest.mysql.offsets import Progress
    from penstock.ingest.mysql.position import LogPosition


@dataclass(slots=True)
class IdlePosition:
    """`seconds` is the time between two batches that only move the position."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    _moved_at: float = field(default=-math.inf, repr=False)
    _passed: tuple[LogPosition, LogPosition] | None = field(default=None, repr=False)

    def holds(self, before: Progress, after: Progress) -> bool:
        """Return whether the batch after `before` waits, because it has no content and another one was not long ago."""
        settles = before.settle is not None and before.log.is_before(before.settle)
        has_content = not after.batch.is_empty or replace(after, log=before.log, batch=before.batch) != before
        if has_content or settles or after.by_gtid or self.clock() - self._moved_at >= self.seconds:
            return False
        self._passed = before.log, after.log
        return True

    def moved(self) -> None:
        """Note that a batch has moved the position."""
        self._moved_at, self._passed = self.clock(), None

    def forget(self) -> None:
        """Forget the passed position, because positions of another server have another meaning."""
        self._passed = None

    def unread_from(self, progress: Progress) -> LogPosition:
        """Return where the log has to be read from: the end of the last batch, or later if nothing follows it."""
        if self._passed is not None and self._passed[0] == progress.log and not progress.by_gtid:
            return self._passed[1]
        return progress.log
