"""The log of a pipeline whose tables are quiet, while other tables of the server change.

A batch that would only move the position costs a job of Spark, so there is one at most every few seconds. In between,
the planner looks whether the slot has a change.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.postgres.errors import SlotBusy
from penstock.ingest.postgres.log import messages as log_messages
from penstock.ingest.postgres.log.messages import MessageBlock
from penstock.ingest.postgres.log.stream import WalRange, streamed
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.slot import slot_facts

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.settings import PgSettings

# The most WAL that the server decodes for a look. It decodes from the oldest transaction that was open, and a batch
# decodes the same once more.
_MOST_BYTES = 16 << 20
_CHANGES = [log_messages.INSERT, log_messages.UPDATE, log_messages.DELETE, log_messages.TRUNCATE]


@dataclass(slots=True)
class QuietLog:
    """`seconds` is the time between two batches that only move the position, and the pause after a look that finds
    changes: the next batches most likely have some, too.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    _moved_at: float = field(default=-math.inf, repr=False)
    _looks_from: float = field(default=-math.inf, repr=False)

    def holds(self, has_changes: Callable[[], bool]) -> bool:
        """Return whether the next batch waits, because it has no content and another one was not long ago."""
        now = self.clock()
        if now - self._moved_at >= self.seconds or now < self._looks_from:
            return False
        if has_changes():
            self._looks_from = now + self.seconds
            return False
        return True

    def moved(self) -> None:
        """Note that a batch moves the position."""
        self._moved_at = self.clock()


def may_have_changes(connection: PgConnection, settings: PgSettings, start: int, end: int) -> bool:
    """Return whether a transaction that commits in [start, end) may have changed a published table.

    True as well where it would be expensive to find out. Holds one block of messages in memory.
    """
    slot = slot_facts(connection, settings.slot)
    if slot is None or slot.is_active or end - min(start, slot.restart or start) > _MOST_BYTES:
        return True
    part = WalRange(settings.slot, (settings.publication.name,), start, end, binary=True)
    try:
        with connected(settings.server, replication=True) as stream:
            # Up to version 14, transactions without changes of published tables have a beginning and an end here.
            return any(np.isin(MessageBlock.of(messages).tag, _CHANGES).any() for messages in streamed(stream, part))
    except SlotBusy:
        return True
