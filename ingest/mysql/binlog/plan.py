"""The driver's look-ahead: selects the part of the binlog for the next batch and cuts it into independent ranges.

It reads only headers, table names and the statements of DDL. Ranges are cut between transactions, so that a batch
contains whole transactions; a transaction larger than a range is cut between row events, and its parts carry the table
maps they need.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.captured_rows import ROWS, CapturedRows, every_table
from penstock.ingest.mysql.binlog.event_groups import brackets
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.log_plan import LoggedDdl, LogPlan, PlanLimits
from penstock.ingest.mysql.binlog.log_sample import continued, sample_before
from penstock.ingest.mysql.binlog.prepared_transactions import PreparedTransactions
from penstock.ingest.mysql.binlog.query_event import parse_query
from penstock.ingest.mysql.binlog.range_cutter import STARTS, RangeCutter, Transactions
from penstock.ingest.mysql.binlog.rolled_back import SAVEPOINTS, Savepoints
from penstock.ingest.mysql.binlog.server_positions import latest
from penstock.ingest.mysql.binlog.unpack import opened_query
from penstock.ingest.mysql.ddl.ddl_parser import parse_ddl
from penstock.ingest.mysql.ddl.query import CHANGES
from penstock.ingest.mysql.position import LogPosition, file_number
from penstock.ingest.mysql.server.connection import connected, server_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.ddl.history import SchemaHistory
    from penstock.ingest.mysql.ddl.query import Query
    from penstock.ingest.mysql.ddl.statements import Statement
    from penstock.ingest.mysql.server.address import ServerAddress

_DDL = frozenset({"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "SET"})
_CASCADE = re.compile(r"\bON\s+(?:DELETE|UPDATE)\s+(?:CASCADE|SET\s+NULL)\b", re.IGNORECASE)
_QUERIES = np.zeros(256, np.bool_)
_QUERIES[[events.QUERY, events.MARIADB_QUERY_COMPRESSED]] = True


def plan_log(
    server: ServerAddress,
    start: LogPosition,
    limits: PlanLimits,
    server_id: int,
    history: SchemaHistory,
    is_barrier: Callable[[Statement], bool] = lambda statement: False,
    includes: Callable[[str, str], bool] = every_table,
) -> LogPlan:
    """Plan the next batch from `start`, and apply every DDL within the plan, but none after it, to the history.

    Parts of the log that have only rows of tables that `includes` does not accept are in no range.

    Called again with the same start it returns a plan with the same beginning, which may reach further if the binlog
    has grown. Holds one block of the binlog in memory.
    """
    request = DumpRequest(
        start,
        server_id,
        by_gtid=limits.by_gtid,
        block_bytes=min(limits.range_bytes, 8 << 20),
    )
    planner = RangePlanner(start, limits, history, is_barrier, includes)
    before = _end_of_log(server) if limits.by_gtid else start
    with continued(server, request) as segments:
        plan = planner.plan(segments)
    if limits.by_gtid and plan.caught_up and (planner.cut.file is None or plan.end.is_before(before)):
        # The server has left out the rest of its binlog up to the end seen before the dump, which was read elsewhere.
        is_known = planner.cut.file == before.file
        begun, sample = (plan.end.begun, plan.end.sample) if is_known else (0, None)
        return replace(plan, end=replace(plan.end, file=before.file, pos=before.pos, begun=begun, sample=sample))
    return plan


def _end_of_log(server: ServerAddress) -> LogPosition:
    with connected(server) as connection:
        return latest(connection, server_facts(connection))


class RangePlanner:
    """The planning itself, independent of where the segments come from."""

    def __init__(
        self,
        start: LogPosition,
        limits: PlanLimits,
        history: SchemaHistory,
        is_barrier: Callable[[Statement], bool] = lambda statement: False,
        includes: Callable[[str, str], bool] = every_table,
    ) -> None:
        self.limits, self.history, self.is_barrier, self.includes = limits, history, is_barrier, includes
        self.transactions = Transactions(start, mariadb=history.mariadb)
        self.cut = RangeCutter(start, CapturedRows(includes), by_gtid=limits.by_gtid)
        self.savepoints, self.xa = Savepoints(), PreparedTransactions(limits.prepared, limits.lacking)
        self.ddl: list[LoggedDdl] = []
        self.barrier: list[LoggedDdl] = []
        self.at_barrier = self.adds_cascade = False
        self.start = start
        self.skip = start.skip_events
        self.seconds = start.time_ms // 1000
        self.sample = None if limits.by_gtid else start.sample

    def plan(self, segments: Iterable[Segment]) -> LogPlan:
        for segment in segments:
            if segment.file != self.cut.file and (self.cut.file is not None or segment.file != self.start.file):
                self.sample = None
            end = self._end_in(segment)
            until = segment.after if end is None else end.pos
            self.sample = sample_before(segment, until) or self.sample
            if end is not None:
                return self._finished(end, caught_up=False)
        self.cut.close()
        return self._finished(self._position_behind_all(), caught_up=True)

    def _finished(self, end: LogPosition, *, caught_up: bool) -> LogPlan:
        # The end is in the file of the last segment, or where the plan began.
        end = replace(end, time_ms=self.seconds * 1000, begun=self.cut.begun, sample=self.sample)
        return LogPlan(
            tuple(self.cut.ranges),
            end,
            tuple(self.ddl),
            tuple(self.barrier),
            caught_up,
            self.at_barrier,
            self.adds_cascade,
            self.xa.names,
            tuple(self.xa.lone),
            self.xa.lacking,
        )

    def _end_in(self, segment: Segment) -> LogPosition | None:
        """Process a segment and return the end of the plan if it is within the segment."""
        self.cut.enter(segment)
        place = self._pass_skipped(segment) if self.skip else 0
        stops = _stops(segment, place)
        while place < len(segment):
            # Everything up to the next stop is passed at once. A stop is a transaction start at which a range ends,
            # or a statement.
            boundary = self._next_boundary(segment, place)
            query = next((stop for stop in stops if stop >= place), len(segment))
            stop = min(boundary, query)
            self._pass(segment, place, stop)
            if stop == len(segment):
                break
            end = self._end_at(segment, stop) if stop == boundary else self._statement(segment, stop)
            if end is not None:
                return end
            self._pass(segment, stop, stop + 1)
            place = stop + 1
        return self._cut_within_transaction(segment)

    def _pass(self, segment: Segment, begin: int, end: int) -> None:
        if begin < end:
            self.transactions.follow(segment, begin, end)
            self.cut.follow(segment, begin, end)
            self.xa.follow(segment, begin, end)
            # Artificial events have no time.
            self.seconds = int(segment.seconds[end - 1]) or self.seconds

    def _pass_skipped(self, segment: Segment) -> int:
        """Skip the row events of the first transaction that an earlier plan contains; return the first new event."""
        rows = np.flatnonzero(ROWS[segment.kind])
        stop = int(rows[self.skip]) if len(rows) > self.skip else len(segment)
        self._pass(segment, 0, stop)
        # Skipped events belong to no range: the next range begins here, or after the segment if there is more to skip.
        self.cut.begin(self.cut.after, self.transactions.maps)
        self.skip = self.skip - len(rows) if stop == len(segment) else 0
        return stop

    def _next_boundary(self, segment: Segment, place: int) -> int:
        """Return the next transaction start at which a range or the plan ends."""
        # The range ends at its own size or where the batch is full, whichever comes first, but after at least one
        # byte.
        want = self.cut.start + min(self.limits.range_bytes, max(self.limits.bytes - self.cut.planned, 1))
        until = self.limits.until
        if until is not None and file_number(segment.file) >= file_number(until.file):
            want = min(want, until.pos) if file_number(segment.file) == file_number(until.file) else 0
        # In a file after the file of `until`, the plan ends at the first transaction start.
        candidates = np.flatnonzero(STARTS[segment.kind[place:]] & (segment.pos[place:] >= want)) + place
        return int(candidates[0]) if len(candidates) else len(segment)

    def _end_at(self, segment: Segment, boundary: int) -> LogPosition | None:
        """Close the range at this transaction start; return the position if the plan ends here too."""
        pos = int(segment.pos[boundary])
        self.cut.close_at(pos)
        here = LogPosition(segment.file, pos)
        past = self.limits.until is not None and not here.is_before(self.limits.until)
        if past or self.cut.planned >= self.limits.bytes:
            return replace(here, gtid=self.transactions.with_open())
        return None

    def _statement(self, segment: Segment, event: int) -> LogPosition | None:
        """Apply a DDL to the history, or end the plan before it; other statements are left to the read tasks."""
        with events.reading(segment, event, "a statement in the binlog"):
            query = parse_query(opened_query(segment, event))
        if query.verb in SAVEPOINTS:
            self._take_back(query, segment, event)
        self.xa.statement(query, segment.file, int(segment.pos[event]))
        if query.verb not in _DDL:
            # A change of rows as a statement must reach a read task, which raises the error for captured tables.
            self.cut.worth |= query.verb in CHANGES
            return None
        if self.transactions.alters_nothing:
            return None
        self.adds_cascade |= _CASCADE.search(query.sql) is not None
        statements = parse_ddl(query, mariadb=self.history.mariadb, lower_names=self.history.lower_names)
        if not any(self.is_barrier(statement) for statement in statements):
            self.ddl += self._applied(query, segment, event)
            return None
        self.at_barrier = True
        # Events precede the barrier: this batch ends before it, and the next batch consists of the barrier alone.
        if self.transactions.precede_open or self.start.skip_events:
            self.cut.close_at(self.transactions.open_at)
            return LogPosition(segment.file, self.transactions.open_at, self.transactions.before_open())
        self.barrier += self._applied(query, segment, event)
        self._pass(segment, event, event + 1)
        behind = int(segment.pos[event + 1]) if event + 1 < len(segment) else segment.after
        self.cut.begin(behind, {})
        return LogPosition(segment.file, behind, self.transactions.with_open())

    def _take_back(self, query: Query, segment: Segment, event: int) -> None:
        span = self.savepoints.statement(query, self.transactions.open_at, int(segment.pos[event]))
        # Of a transaction that an earlier plan has begun to read, rows may be in the tables: the reader refuses it.
        is_first = (segment.file, self.transactions.open_at) == (self.start.file, self.start.pos)
        if span is not None and not (is_first and self.start.skip_events):
            self.cut.take_back(span)

    def _applied(self, query: Query, segment: Segment, event: int) -> list[LoggedDdl]:
        pos = int(segment.pos[event])
        changes = self.history.apply(query, segment.file, pos, self.includes)
        return [LoggedDdl(change, segment.file, pos) for change in changes]

    def _cut_within_transaction(self, segment: Segment) -> LogPosition | None:
        """End the range inside a transaction that alone exceeds a range; end the plan too if it is full."""
        inside = max(self.cut.start, self.transactions.open_at)
        rows = np.flatnonzero(ROWS[segment.kind] & (segment.pos >= inside))
        # The last row event goes to the next range; without another row event before it, a cut would be empty.
        if segment.after - inside < self.limits.range_bytes or not len(rows) or self.cut.row_events < 2:
            return None
        last = int(rows[-1])
        self.cut.close_at(int(segment.pos[last]))
        self.cut.begin(int(segment.pos[last]), self.transactions.maps_at_last_row, row_events=1)
        passed = self.transactions.row_events - 1
        # If the plan began inside this transaction, it must pass more row events than were skipped, or it would
        # make no progress.
        same = self.transactions.open_at == self.start.pos and segment.file == self.start.file
        if self.cut.planned < self.limits.bytes or passed <= (self.start.skip_events if same else 0):
            return None
        # The next plan reads the transaction again from its start, where it finds the GTID and the table maps, and
        # skips the row events of this plan.
        return LogPosition(segment.file, self.transactions.open_at, self.transactions.before_open(), passed)

    def _position_behind_all(self) -> LogPosition:
        if self.cut.file is None:
            return self.start
        return LogPosition(self.cut.file, self.cut.after, self.transactions.with_open())


def _stops(segment: Segment, place: int) -> list[int]:
    """Return the numbers of QUERY events other than BEGIN and COMMIT."""
    chosen = _QUERIES[segment.kind] & ~brackets(segment)
    chosen[:place] = False
    stops: list[int] = np.flatnonzero(chosen).tolist()
    return stops
