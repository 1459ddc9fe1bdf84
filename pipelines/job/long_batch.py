"""The progress of a batch that takes long: without these lines of the log nothing is shown until its commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

SECONDS = 10.0  # between two lines


@dataclass(slots=True)
class LongBatch:
    """`tasks` returns how many tasks of the running stages are done, and how many there are."""

    tasks: Callable[[], tuple[int, int]]
    clock: Callable[[], float] = time.monotonic
    _logged: float = 0.0

    def look(self, number: int, began: float) -> None:
        """Log the progress of the batch under way, at most once in `SECONDS` and never before."""
        now = self.clock()
        if now - max(began, self._logged) < SECONDS:
            return
        self._logged = now
        done, planned = self.tasks()
        log.info("event=batch_running number=%d seconds=%d tasks_done=%d tasks=%d", number, now - began, done, planned)


def running_tasks(context: SparkContext) -> tuple[int, int]:
    """Return the tasks that are done and all tasks of the stages that run now."""
    tracker = context.statusTracker()
    # A stage may end between the two calls, and has no info then.
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    found = [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage is not None]
    return sum(done for done, _ in found), sum(planned for _, planned in found)
