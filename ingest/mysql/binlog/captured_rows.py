"""The row events of captured tables in a binlog file, found by the table ids in their headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.database.buffers import unsigned_at
from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.table_map import table_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.byte_buffers import Bools, Int64s
    from penstock.ingest.mysql.binlog.segment import Segment

ROWS = np.zeros(256, np.bool_)
ROWS[[*events.ROWS, *range(events.MARIADB_WRITE_V1_COMPRESSED, events.MARIADB_DELETE_COMPRESSED + 1)]] = True
_ID_BYTES = 6


def every_table(_database: str, _table: str) -> bool:
    return True


class CapturedRows:
    """The table ids of the file that is read.

    A server gives an id to one table, and to no other until it restarts, which begins a new file. Rows whose id no map
    has named count as captured: their reader decides.
    """

    def __init__(self, includes: Callable[[str, str], bool]) -> None:
        self._includes = includes
        self._captured: dict[int, bool] = {}

    def enter_file(self) -> None:
        self._captured.clear()

    def any_in(self, segment: Segment, begin: int, end: int) -> bool:
        """Return whether these events, which follow the events of the last call, have rows of a captured table."""
        kinds = segment.kind[begin:end]
        self._learn(segment, np.flatnonzero(kinds == events.TABLE_MAP) + begin)
        rows = np.flatnonzero(ROWS[kinds]) + begin
        ids = np.unique(_table_ids(segment, rows)).tolist()
        return any(self._captured.get(number, True) for number in ids)

    def _learn(self, segment: Segment, maps: Int64s) -> None:
        ids, first = np.unique(_table_ids(segment, maps), return_index=True)
        for number, place in zip(ids.tolist(), maps[first].tolist(), strict=True):
            if number not in self._captured:
                with events.reading(segment, place, "a table map in the binlog"):
                    self._captured[number] = self._includes(*table_name(segment.body(place)[_ID_BYTES:]))


def _table_ids(segment: Segment, chosen: Int64s | Bools) -> Int64s:
    return unsigned_at(segment.data, segment.start[chosen] + events.HEADER, _ID_BYTES)
