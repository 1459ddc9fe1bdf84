"""Transactions whose captured rows may not be in the tables, although the log has them: prepared, or rolled back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.range_cutter import STARTS
from penstock.ingest.mysql.errors import UnsupportedBinlogEvent

if TYPE_CHECKING:
    from penstock.byte_buffers import Int64s
    from penstock.ingest.mysql.binlog.segment import Segment


class OpenRows:
    """Tracks from one segment to the next whether the open transaction has rows of captured tables.

    `settled` are the positions of rollbacks whose rows the segments lack already; None if the caller removes such rows
    from the decoded batches.
    """

    def __init__(self, settled: Collection[int] | None) -> None:
        self.has_rows = False
        self._settled = settled

    def check(self, segment: Segment, rows_read: list[Int64s], rollbacks: Sequence[int]) -> None:
        """Raise UnsupportedBinlogEvent if captured rows precede the end of a transaction that may not keep them."""
        rows = np.sort(np.concatenate(rows_read)) if rows_read else np.zeros(0, np.int64)
        starts = np.flatnonzero(STARTS[segment.kind])
        for event in np.flatnonzero(segment.kind == events.XA_PREPARE).tolist():
            # The rows are logged where the transaction was prepared, and its commit follows later or never. With any
            # other first byte the event is XA COMMIT ... ONE PHASE, which takes effect where it is logged.
            if segment.body(event)[:1] in {b"\0", b""} and self._precede(event, rows, starts):
                raise _prepared(segment, event)
        for event in rollbacks:
            if not self._is_settled(segment, event, rows) and self._precede(event, rows, starts):
                raise _rolled_back(segment, event)
        if len(starts):
            self.has_rows = bool((rows > starts[-1]).any())
        else:
            self.has_rows |= len(rows) > 0

    def _is_settled(self, segment: Segment, event: int, rows: Int64s) -> bool:
        if self._settled is not None:
            return int(segment.pos[event]) in self._settled
        # Rows of a compressed transaction share its position, so they cannot be left out by their positions.
        return not (segment.pos[rows] == segment.pos[event]).any()

    def _precede(self, event: int, rows: Int64s, starts: Int64s) -> bool:
        before = starts[starts < event]
        begin = int(before[-1]) if len(before) else -1
        return bool(((rows > begin) & (rows < event)).any() or (begin < 0 and self.has_rows))


def _prepared(segment: Segment, event: int) -> UnsupportedBinlogEvent:
    return UnsupportedBinlogEvent(
        "a captured table was changed by an XA transaction",
        file=segment.file,
        pos=int(segment.pos[event]),
        hint="an XA transaction may be committed long after it was logged, or never: do not change "
        "captured tables in XA transactions, and read the tables again (--resnapshot)",
    )


def _rolled_back(segment: Segment, event: int) -> UnsupportedBinlogEvent:
    return UnsupportedBinlogEvent(
        "rows of captured tables were rolled back after a part of their transaction was read",
        file=segment.file,
        pos=int(segment.pos[event]),
        hint="the log has the rows of a large or compressed transaction that was rolled back: read the tables again "
        "(--resnapshot)",
    )
