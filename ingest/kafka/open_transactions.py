"""Records behind a transaction of a producer that stays open: they cannot be read yet, and no lag counts them."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.ingest.kafka.cluster import Place

log = logging.getLogger(__name__)
PAUSE_S = 60.0  # between two looks, and so the shortest time for which a transaction was open when it is reported
_NOTE = (
    "a producer has had a transaction open since then, and records after its beginning are read once it has ended; "
    "kafka-transactions.sh find-hanging  finds it if its producer is gone"
)
_LEFT_OUT = (
    "a producer has a transaction open, so this run ends before its records and those after them, and the next run "
    "reads them once it has ended; kafka-transactions.sh find-hanging  finds it if its producer is gone"
)


@dataclass(slots=True)
class OpenTransactions:
    """The partitions that a transaction held at the last look."""

    clock: Callable[[], float] = time.monotonic
    _looked_at: float = field(default=-math.inf, repr=False)
    _held: Mapping[Place, int] = field(default_factory=dict, repr=False)  # at the last look

    def look(self, quiet: Mapping[Place, int], written: Callable[[Mapping[Place, int]], Mapping[Place, int]]) -> None:
        """Warn of quiet partitions that have records behind an open transaction, if they had them at the last look too.

        `quiet` are the ends of partitions without records to read; `written` returns ends with all records.
        """
        if self.clock() - self._looked_at < PAUSE_S:
            return
        self._looked_at = self.clock()
        ends = written(quiet)
        held = {place: end for place, end in quiet.items() if ends[place] > end}
        for place, end in held.items():
            if self._held.get(place) == end:
                _warn("waits_for_transaction", place, end, ends[place], _NOTE)
        self._held = held


def warn_of_left_out(ends: Mapping[Place, int], written: Mapping[Place, int]) -> None:
    """Warn of records behind open transactions, which a run to these ends does not read."""
    for place, end in written.items():
        if end > ends[place]:
            _warn("ends_before_transaction", place, ends[place], end, _LEFT_OUT)


def _warn(event: str, place: Place, offset: int, end: int, note: str) -> None:
    log.warning("event=%s topic=%s partition=%d offset=%d end=%d note=%s", event, *place, offset, end, note)
