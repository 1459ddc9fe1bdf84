"""Cuts the binlog into ranges, and follows the transaction that is open at a cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.database.buffers import gathered
from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.captured_rows import ROWS, CapturedRows
from penstock.ingest.mysql.binlog.gtid import add_transactions, alters_nothing, transaction_name
from penstock.ingest.mysql.binlog.log_sample import sample_before
from penstock.ingest.mysql.position import transaction_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.position import LogPosition, LogSample

# A range without rows of captured tables is read only if it has one of these events: the first, because only its reader
# knows its tables; the others, because their reader raises an error.
_WORTH = np.zeros(256, np.bool_)
_WORTH[[events.TRANSACTION_PAYLOAD, events.PARTIAL_UPDATE, events.XA_PREPARE, events.INCIDENT]] = True
STARTS = np.zeros(256, np.bool_)
STARTS[list(events.TRANSACTION_STARTS)] = True


@dataclass(frozen=True, slots=True)
class BinlogRange:
    """The input of one read task: the events of one file from `start` to `until` (exclusive).

    `maps` are the bodies of the table maps in force if the range begins inside a transaction. Transactions in the GTID
    set `known` are omitted: the binlog of another server may contain them in another order. `rolled_back` are spans of
    positions: the row events from the first on were taken back by the statement at the second. `begun` is when the
    server began the file, `sample` is of events of the range.
    """

    file: str
    start: int
    until: int
    maps: tuple[bytes, ...] = ()
    known: str = ""
    rolled_back: tuple[tuple[int, int], ...] = ()
    begun: int = 0
    sample: LogSample | None = None

    @property
    def bytes(self) -> int:
        return self.until - self.start


class RangeCutter:
    """The open range, to be closed at given positions, and the closed ranges with events to read.

    Ranges without rows of captured tables are dropped.
    """

    def __init__(self, start: LogPosition, captured: CapturedRows, *, by_gtid: bool) -> None:
        self.captured = captured
        self.ranges: list[BinlogRange] = []
        self.planned = 0  # bytes of the closed ranges
        self.file: str | None = None
        self.begun = start.begun  # when the server began the file
        self.start = start.pos
        self.after = start.pos
        self.worth = False
        self.row_events = 0  # in the open range
        self._maps: tuple[bytes, ...] = ()
        self._known = start.gtid if by_gtid else ""
        self._start_file = start.file
        self._by_gtid = by_gtid
        self._rolled_back: list[tuple[int, int]] = []  # in the current file
        self._segment: Segment | None = None  # the last one entered

    def enter(self, segment: Segment) -> None:
        """Continue in this segment's file; a range never spans two files."""
        if segment.file != self.file:
            self.close()
            self.captured.enter_file()
            self._rolled_back = []
            if self.file is not None or not self._is_start_file(segment):
                self.begin(int(segment.pos[0]), {})
            self.file, self.begun = segment.file, segment.begun
        self._segment = segment

    def _is_start_file(self, segment: Segment) -> bool:
        """Return whether this is the file of the start. By GTIDs it may be another server's with the same name."""
        is_known = bool(segment.begun) and segment.begun == self.begun
        return segment.file == self._start_file and (is_known or not self._by_gtid)

    def follow(self, segment: Segment, begin: int, end: int) -> None:
        self.row_events += int(ROWS[segment.kind[begin:end]].sum())
        # Asked for each event, because table ids of maps are needed later.
        has_rows = self.captured.any_in(segment, begin, end)
        self.worth |= has_rows or bool(_WORTH[segment.kind[begin:end]].any())
        self.after = int(segment.pos[end]) if end < len(segment) else segment.after

    def begin(self, pos: int, maps: Mapping[bytes, bytes], row_events: int = 0) -> None:
        """Drop the open range and start a new one here, which contains `row_events` row events already."""
        self.start, self.worth, self._maps = pos, row_events > 0, tuple(maps.values())
        self.row_events = row_events

    def close_at(self, pos: int) -> None:
        """Close the open range at a position and start the next one there."""
        if pos > self.start and self.file is not None:
            if self.worth:
                spans = tuple(span for span in self._rolled_back if span[1] >= self.start)
                range_ = BinlogRange(self.file, self.start, pos, self._maps, self._known, spans, self.begun)
                self.ranges.append(replace(range_, sample=self._sample(pos)))
            # Counted for ranges without events to read as well: the dump has sent their bytes.
            self.planned += pos - self.start
        self.begin(pos, {})

    def _sample(self, pos: int) -> LogSample | None:
        segment = self._segment
        return None if segment is None or segment.file != self.file else sample_before(segment, pos, self.start)

    def take_back(self, span: tuple[int, int]) -> None:
        """Leave out the row events of a span of the current file, in the open range and in closed ones."""
        self._rolled_back.append(span)
        for place, range_ in enumerate(self.ranges):
            if range_.file == self.file and range_.until > span[0]:
                self.ranges[place] = replace(range_, rolled_back=(*range_.rolled_back, span))

    def close(self) -> None:
        """Close the open range after the last event followed."""
        self.close_at(self.after)


class Transactions:
    """The transactions that were passed; the last counts as open until another starts."""

    def __init__(self, start: LogPosition, *, mariadb: bool) -> None:
        self._known = transaction_set(start.gtid, mariadb=mariadb)
        self._open: str | None = None
        self.open_at = start.pos
        self.alters_nothing = False  # the ALTER TABLE of the open transaction takes no effect there
        self.count = 0
        self.is_continued = False  # there are rows before the first start, of a transaction that an earlier plan began
        self.row_events = 0
        self.maps: dict[bytes, bytes] = {}
        # The maps in force at the last row event. A table map after it may have replaced one that it needs, whose own
        # event was in an earlier segment.
        self.maps_at_last_row: dict[bytes, bytes] = {}

    def follow(self, segment: Segment, begin: int, end: int) -> None:
        starts = np.flatnonzero(STARTS[segment.kind[begin:end]]) + begin
        if not self.count:
            first = int(starts[0]) if len(starts) else end
            self.is_continued |= bool(ROWS[segment.kind[begin:first]].any())
        if len(starts):
            self._close()
            self.count += len(starts)
            last = int(starts[-1])
            # Only the last transaction can still be open, so all before it are complete.
            add_transactions(self._known, segment.chosen(np.arange(begin, last)))
            self._open, self.open_at = transaction_name(segment, last), int(segment.pos[last])
            self.alters_nothing = alters_nothing(segment, last)
            self.row_events, self.maps = 0, {}
            begin = last
        rows = np.flatnonzero(ROWS[segment.kind[begin:end]]) + begin
        if len(rows):
            self.row_events += len(rows)
            self.maps_at_last_row = self.maps | _newest_maps(segment, begin, int(rows[-1]))
            self.maps, begin = self.maps_at_last_row, int(rows[-1])
        self.maps = self.maps | _newest_maps(segment, begin, end)

    def _close(self) -> None:
        if self._open is not None:
            self._known.add(self._open)

    @property
    def precede_open(self) -> bool:
        """True if the plan has changes before the open transaction."""
        return self.count > 1 or (self.count == 1 and self.is_continued)

    def before_open(self) -> str:
        """Return the GTID set without the open transaction."""
        return str(self._known)

    def with_open(self) -> str:
        """Return the GTID set with the open transaction, which stays in the set from then on."""
        self._close()
        return str(self._known)


def _newest_maps(segment: Segment, begin: int, end: int) -> dict[bytes, bytes]:
    """Return the body of the last TABLE_MAP for each table id."""
    places = np.flatnonzero(segment.kind[begin:end] == events.TABLE_MAP) + begin
    if not len(places):
        return {}
    ids = gathered(segment.data, segment.start[places] + events.HEADER, 6)
    # np.unique returns the first place of each id; in reverse order that is the last map.
    distinct, from_behind = np.unique(np.ascontiguousarray(ids[::-1]).view("V6").reshape(-1), return_index=True)
    newest = places[::-1][from_behind]
    return {known.tobytes(): segment.body(int(place)) for known, place in zip(distinct, newest, strict=True)}
