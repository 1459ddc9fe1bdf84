"""When the next batch of a stream is planned: by an interval, or as soon as the source has something new."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.ingest.source import Limit, Offsets

LONGEST_WAIT = 60.0  # seconds in one call
# Seconds between two looks at a source that has nothing new: twice as long each time.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.5


class PlannedStream(Protocol):
    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets: ...

    def at_barrier(self) -> bool:
        """Return whether the next batch has to start at once."""
        ...


@dataclass(slots=True)
class BatchPace:
    """Determines the ends of batches, and waits until each is due.

    A batch that follows a barrier does not wait for the interval, and the batches of a bounded stream do not either.
    With an interval of 0 a call lasts until the source has something new. Without an interval (None) no call waits.
    """

    interval: float | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    until: Offsets | None = None  # the end of a bounded stream
    stopped: Callable[[], bool] = lambda: False  # a wait that is stopped finds nothing
    _planned_at: float | None = field(default=None, init=False)

    def next_end(self, stream: PlannedStream, start: Offsets, limit: Limit) -> Offsets:
        """Return the end of the next batch, or `start` if nothing is new yet: the caller asks again."""
        if not self._is_due(stream):
            return start
        # Counted from the start of planning, as Spark counts its trigger interval.
        self._planned_at = self.clock()
        began, pause = self._planned_at, SHORTEST_PAUSE
        while True:
            end = stream.latest_offsets(start, limit, self.until)
            waits = self.interval == 0 and self.until is None and not stream.at_barrier()
            if end != start or not waits or self.clock() - began >= LONGEST_WAIT or self.stopped():
                return end
            self.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _is_due(self, stream: PlannedStream) -> bool:
        """Sleep until the next batch is due, or for the longest wait; return whether it is due then."""
        if not self.interval or self.until is not None or self._planned_at is None or stream.at_barrier():
            return True
        began, due = self.clock(), self._planned_at + self.interval
        ends = min(due, began + LONGEST_WAIT)
        while (left := ends - self.clock()) > 0 and not self.stopped():
            self.sleep(min(left, LONGEST_PAUSE))
        return due <= ends and not self.stopped()
