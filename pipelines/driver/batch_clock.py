"""The time that a batch takes, by a clock that nobody sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class BatchClock:
    """The times of one batch after the other. The planner's instant is by the machine's clock, which somebody may set.

    The planner looks for a batch only when the one before it is done, so that the wait for its tasks is no longer than
    the time since then.
    """

    clock: Callable[[], float] = time.monotonic
    _free: float = field(init=False)
    _started: float = field(init=False)
    _started_millis: int = 0

    def __post_init__(self) -> None:
        self._free = self._started = self.clock()

    def start(self, now_millis: int) -> None:
        """Note that the tasks of a batch are started."""
        self._started, self._started_millis = self.clock(), now_millis

    def planning(self, planned_at: int) -> float:
        """Return the seconds from this instant of the planner, 0 if it is not known, to the start of the tasks."""
        if not planned_at or not self._started_millis:
            return 0.0
        return min(max(0, self._started_millis - planned_at) / 1000, self._started - self._free)

    def done(self, planned_at: int) -> float:
        """Return the seconds from this instant of the planner until now, when the batch is done."""
        before, self._free = self.planning(planned_at), self.clock()
        return before + self._free - self._started
