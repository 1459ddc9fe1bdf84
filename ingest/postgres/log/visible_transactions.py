"""The transactions of the log that a snapshot of the server sees, and a filter for the rows of all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.postgres.log import messages as log_messages
from penstock.ingest.postgres.log.messages import MessageBlock

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Int64s

_XIDS, _HALF = 1 << 32, 1 << 31


@dataclass(frozen=True, slots=True)
class VisibleTransactions:
    """The transactions that a snapshot of the server sees: those before `next` that were not running."""

    next: int
    running: frozenset[int]

    @classmethod
    def of(cls, text: str) -> VisibleTransactions:
        """Return what `pg_current_snapshot()` printed, such as `42006:42008:42006`."""
        _, next_, running = text.split(":")
        return cls(int(next_), frozenset(map(int, filter(None, running.split(",")))))

    def includes(self, xids: Int64s) -> Bools:
        """Return which of these transactions are seen. The log contains only the lower 32 bits of a number."""
        whole = self.next + (xids - self.next + _HALF) % _XIDS - _HALF
        seen: Bools = (whole < self.next) & ~np.isin(whole, np.array(sorted(self.running), np.int64))
        return seen


@dataclass(slots=True)
class SeenMessages:
    """A filter for consecutive blocks: rows of transactions that a snapshot does not see are left out."""

    visible: VisibleTransactions
    _is_seen: bool = False  # the transaction that was open at the end of the block before

    def of(self, block: MessageBlock) -> MessageBlock:
        begins = block.tag == log_messages.BEGIN
        # A BEGIN message has its kind, a position and a time of 8 bytes each, and the number of its transaction.
        seen = np.concatenate([[self._is_seen], self.visible.includes(block.unsigned(np.flatnonzero(begins), 17))])
        self._is_seen = bool(seen[-1])
        rows = np.isin(block.tag, [log_messages.INSERT, log_messages.UPDATE, log_messages.DELETE])
        rows |= block.tag == log_messages.TRUNCATE
        return block.chosen(seen[np.cumsum(begins)] | ~rows)
