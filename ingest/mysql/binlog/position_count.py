"""The position of each event of a dump in its file, counted from the sizes of the events before it.

Since MariaDB 11.4 most events of a transaction carry no position. So the count decides, and every position that an
event does carry has to agree with it: an event that the server left out cannot go unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.errors import LogGap
from penstock.ingest.mysql.position import FIRST_EVENT

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Int64s
    from penstock.ingest.mysql.binlog.segment import Headers

# Headers contain the low 32 bits of a position.
_TURN = 1 << 32
# The server repeats these at the start of a dump, without a position if the dump starts inside the file.
_REPEATED = np.zeros(256, np.bool_)
_REPEATED[[events.FORMAT_DESCRIPTION, events.MARIADB_START_ENCRYPTION]] = True
_NEVER_LOGGED = np.zeros(256, np.bool_)
_NEVER_LOGGED[[events.HEARTBEAT, events.HEARTBEAT_V2]] = True
# A dump that starts from a GTID set omits whole transactions: one of these events follows the gap.
_AFTER_LEFT_OUT = np.zeros(256, np.bool_)
_AFTER_LEFT_OUT[
    [
        *events.TRANSACTION_STARTS,
        *(events.STOP, events.ROTATE, events.PREVIOUS_GTIDS, events.MARIADB_CHECKPOINT, events.MARIADB_GTID_LIST),
    ]
] = True


def logged(headers: Headers) -> Bools:
    """Return which events are in the log file; the server creates the others only for this dump."""
    repeated = _REPEATED[headers.kind] & (headers.next_pos == 0)
    found: Bools = ~(headers.artificial | _NEVER_LOGGED[headers.kind] | repeated)
    return found


class PositionCount:
    """The running position in one file after the other.

    With `may_skip` whole transactions may be missing between the events, as in a dump from a GTID set.
    """

    def __init__(self, file: str, pos: int, *, may_skip: bool) -> None:
        self.file = file
        self.pos = pos
        self._may_skip = may_skip

    def enter(self, file: str, pos: int = FIRST_EVENT) -> None:
        self.file, self.pos = file, pos

    def advance(self, headers: Headers) -> Int64s:
        """Count these logged events and return the position of each."""
        ends = self.pos + np.cumsum(headers.size)
        if not len(ends):
            return ends
        ends += self._left_out(headers, ends)
        self.pos = int(ends[-1])
        return ends - headers.size

    def _left_out(self, headers: Headers, ends: Int64s) -> Int64s:
        """Return the bytes omitted before each event; zero everywhere unless the dump may skip transactions."""
        stated = np.flatnonzero(headers.next_pos)
        # The difference between the reported and the counted position, at each event that reports one. Each
        # increase is an amount of bytes that are missing before that event.
        ahead = (headers.next_pos[stated] - ends[stated]) % _TURN
        more = np.diff(ahead, prepend=0) % _TURN
        gaps = more != 0
        if self._may_skip:
            gaps &= ~_AFTER_LEFT_OUT[headers.kind[stated]]
        if gaps.any():
            first = int(stated[np.flatnonzero(gaps)[0]])
            raise LogGap(
                "binlog events are missing: their sizes do not add up to the position that the server reports",
                file=self.file,
                counted=int(ends[first]) % _TURN,
                reported=int(headers.next_pos[first]),
                type=int(headers.kind[first]),
                hint="nothing was read beyond this position. A proxy or relay between the server and this "
                "pipeline may drop events: connect to the server directly; if you do already, report a bug "
                "with the server's version",
            )
        before = np.zeros(len(ends), np.int64)
        before[stated] = more
        return np.cumsum(before)
