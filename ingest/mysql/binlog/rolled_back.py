"""Row events that their transaction took back, although the log has them.

MariaDB logs them, followed by ROLLBACK or ROLLBACK TO, if a temporary table was created or dropped in the transaction,
or if it changed a table without transactions; MySQL without GTIDs does so too. The rows of tables without transactions
are not among them: they are logged in a transaction of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.captured_rows import ROWS
from penstock.ingest.mysql.binlog.event_groups import others
from penstock.ingest.mysql.binlog.query_event import parse_query
from penstock.ingest.mysql.binlog.range_cutter import STARTS

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.ddl.query import Query

# Positions in one file: the row events from the first on were taken back by the statement at the second.
Span = tuple[int, int]
SAVEPOINTS = frozenset({"SAVEPOINT", "ROLLBACK"})


class Savepoints:
    """The savepoints of the transaction that is passed, by name."""

    def __init__(self) -> None:
        self._transaction = -1
        self._places: dict[str, int] = {}

    def statement(self, query: Query, transaction: int, pos: int) -> Span | None:
        """Return the part of the transaction from `transaction` on that a statement at `pos` rolls back."""
        if transaction != self._transaction:
            self._transaction, self._places = transaction, {}
        words = query.tokens
        name = words[-1].text.lower() if len(words) > 1 else ""
        if query.verb == "SAVEPOINT":
            self._places[name] = pos
        elif query.verb == "ROLLBACK":
            # A savepoint that the log lacks was made before anything that it has of the transaction.
            return self._places.get(name, transaction), pos
        return None


class RolledBackRows:
    """The row events of plain segments that were taken back, as far as the segments were followed."""

    def __init__(self) -> None:
        self._spans: dict[str, list[Span]] = {}
        self._savepoints = Savepoints()
        self._transaction = 0

    def in_file(self, file: str) -> Sequence[Span]:
        """Return the spans of a file."""
        return self._spans.get(file, ())

    def follow(self, segment: Segment) -> None:
        """Note the changes that statements of the next segment roll back."""
        starts = np.flatnonzero(STARTS[segment.kind])
        for event in others(segment):
            if segment.kind[event] != events.QUERY:
                continue
            with events.reading(segment, event, "a statement in the binlog"):
                query = parse_query(segment.body(event))
            before = starts[starts < event]
            begin = int(segment.pos[before[-1]]) if len(before) else self._transaction
            span = self._savepoints.statement(query, begin, int(segment.pos[event]))
            if span is not None:
                self._spans.setdefault(segment.file, []).append(span)
        if len(starts):
            self._transaction = int(segment.pos[starts[-1]])


def is_taken_back(positions: np.ndarray, spans: Iterable[Span]) -> Bools:
    """Return which of these positions of one file are within a span."""
    found: Bools = np.zeros(len(positions), np.bool_)
    for begin, end in spans:
        found |= (positions >= begin) & (positions < end)
    return found


def without_rolled_back(segment: Segment, spans: Sequence[Span]) -> Segment:
    """Return the segment without the row events that were taken back."""
    if not spans:
        return segment
    return segment.chosen(~(ROWS[segment.kind] & is_taken_back(segment.pos, spans)))
