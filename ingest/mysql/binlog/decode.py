"""Decoding of binlog segments to change batches."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.formats.change import ChangeBatch
from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.columns import column_of
from penstock.ingest.mysql.binlog.event_groups import EventGroup, TableMapTracker, others, unreadable
from penstock.ingest.mysql.binlog.open_rows import OpenRows
from penstock.ingest.mysql.binlog.query_event import parse_load, parse_query
from penstock.ingest.mysql.binlog.row_images import EventRows, partial_rows, whole_rows
from penstock.ingest.mysql.binlog.row_layout import locate_images
from penstock.ingest.mysql.ddl.query import CHANGES, written_tables
from penstock.ingest.mysql.errors import (
    RowImageError,
    StatementBinlogError,
    UnsupportedBinlogEvent,
)
from penstock.ingest.mysql.values.rules import CellContext
from penstock.row_kinds import DELETE, UPDATE_BEFORE

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.byte_buffers import Int64s
    from penstock.formats.change import ImageRule
    from penstock.ingest.mysql.binlog.options import BinlogOptions
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.ddl.query import Query


# Rows before a change whose generated columns are null, because the log lacks them.
GENERATED_BEFORE = "generated-value-before-change"
# Statements on tables that are not captured; a trigger, a view or a function in them may change captured ones.
STATEMENT_OF_OTHER = "statement-of-other-table"


class Decoder:
    """A decoder of consecutive segments to change batches.

    It remembers table maps from one segment to the next, because a transaction may span several segments. `oddities`
    counts values that do not fit their column. `rolled_back` are the positions of rollbacks whose rows the segments
    lack already; None if the caller removes such rows from the decoded batches.
    """

    def __init__(
        self,
        options: BinlogOptions,
        oddities: Counter[str] | None = None,
        rolled_back: Collection[int] | None = (),
    ) -> None:
        self.options = options
        self.oddities: Counter[str] = Counter() if oddities is None else oddities
        self._grouping = TableMapTracker(options)
        self._last_pos, self._rows_at_last_pos = -1, 0
        self._open_rows = OpenRows(rolled_back)

    def remember_map(self, body: bytes, *, mariadb: bool) -> None:
        """Remember a TABLE_MAP that is in force where the first segment begins, within a transaction."""
        self._open_rows.has_rows |= self._grouping.remember(body, mariadb=mariadb)

    def decode(self, segment: Segment) -> list[ChangeBatch]:
        """Return the changes of plain events; compressed events must be unpacked before."""
        rollbacks = []
        for event in others(segment):
            if segment.kind[event] == events.INCIDENT:
                raise _incident(segment, event)
            if self._checked_statement(segment, event).verb == "ROLLBACK":
                rollbacks.append(event)
        groups = self._grouping.groups(segment)
        self._open_rows.check(segment, [np.array(group.event, np.int64) for group in groups], rollbacks)
        # All groups are located before any is decoded: rows at the same position are numbered across the tables of
        # a transaction.
        located = [(group, self._located_rows(segment, group)) for group in groups]
        base = self._rows_before(segment, [rows for _, rows in located])
        return [self._batch(segment, group, rows, base) for group, rows in located if len(rows)]

    def _located_rows(self, segment: Segment, group: EventGroup) -> EventRows:
        event = np.array(group.event, np.int64)
        start, end = np.array(group.start, np.int64), segment.end[event]
        is_update = _UPDATES[segment.kind[event]]
        shape = group.shape
        before, after = shape.present(group.before), shape.present(group.after)
        try:
            # The usual case: all images have the same layout, so images of inserts, updates and deletes are located
            # together.
            if len(before) == len(after) == len(shape.columns):
                return whole_rows(locate_images(segment.data, start, end, [shape.layout(before)])[0], event, is_update)
            # Both images of an update lack generated columns. With binlog_row_image = MINIMAL, the two images differ.
            generated = self.options.missing is not None and before == after
            if not self.options.partial_images and not generated:
                raise _partial(segment, group)
            layouts = [shape.layout(before), shape.layout(after)] if group.apart else [shape.layout(before)]
            return partial_rows(locate_images(segment.data, start, end, layouts), event, before, after)
        except (ValueError, IndexError) as error:
            raise unreadable(segment, group.event[0], str(error)) from error

    def _rows_before(self, segment: Segment, groups: list[EventRows]) -> Int64s:
        """Return the number of rows before each event at the same position.

        The events of a compressed transaction share a position.
        """
        pos = segment.pos
        counts = np.zeros(len(pos), np.int64)
        if not len(pos):
            return counts
        for rows in groups:
            # The two images of an update are one row: `sub` distinguishes them in its lowest bit.
            counts += np.bincount(rows.event[~rows.is_after], minlength=len(pos))
        before = np.cumsum(counts) - counts
        # For each event, subtract the rows before the first event at its position: `maximum.accumulate` carries the
        # number of that event forward.
        first = np.ones(len(pos), np.bool_)
        first[1:] = pos[1:] != pos[:-1]
        base = before - before[np.maximum.accumulate(np.where(first, np.arange(len(pos)), 0))]
        # A compressed transaction may continue from the segment before, still at the same position.
        base[pos == self._last_pos] += self._rows_at_last_pos
        self._last_pos, self._rows_at_last_pos = int(pos[-1]), int(base[-1] + counts[-1])
        return base

    def _batch(self, segment: Segment, group: EventGroup, rows: EventRows, base: Int64s) -> ChangeBatch:
        shape = group.shape
        rule = self.options.image_rule(shape.definition)
        watched = [place for place, shaped in enumerate(shape.columns) if rule.watches(shaped.column.name)]
        rows.row += base[rows.event]
        delete = _DELETES[segment.kind[rows.event]]
        changes = rows.as_changes(segment.data, delete, watched, keep_all=rule.before_images == "all")
        rows = changes.rows
        arrays = []
        for place, shaped in enumerate(shape.columns):
            definition, in_key = shape.definition, shape.definition.has_in_key(shaped.column.name)
            cells = CellContext(shaped.column, definition.qualified, self.options.rules, self.oddities, in_key)
            with events.reading(segment, group.event[0], f"column {shaped.column.name} of {definition.qualified}"):
                data, start, length, null = rows.source.placed(segment.data, place)
                arrays.append(column_of(data, shaped, start, length, null, cells))
        names = [shaped.column.name for shaped in shape.columns]
        batch = ChangeBatch(
            pa.RecordBatch.from_arrays(arrays, names=names),
            changes.kinds,
            segment.pos[rows.event],
            rows.sub.astype(np.int32),
            shape.schema,
            # Headers contain whole seconds; change batches contain milliseconds.
            segment.seconds[rows.event] * 1000,
        )
        return batch if self.options.missing is None else self._completed(segment, group, batch, rule)

    def _completed(self, segment: Segment, group: EventGroup, batch: ChangeBatch, rule: ImageRule) -> ChangeBatch:
        """Return the batch with the values of generated columns that its images lack."""
        shape = group.shape
        present = {*shape.present(group.before), *shape.present(group.after)}
        lacking = [column.column.name for place, column in enumerate(shape.columns) if place not in present]
        if not lacking or self.options.missing is None:
            return batch
        watched = [name for name in lacking if rule.watches(name)]
        if watched:
            raise RowImageError(
                "the binlog lacks a column by which rows are found in their table",
                table=shape.definition.qualified,
                columns=", ".join(watched),
                file=segment.file,
                pos=int(segment.pos[group.event[0]]),
                hint="if it is a generated column, which MariaDB 11.8.9 and newer leave out, compute the key or the "
                "partition in the pipeline; otherwise a session has set binlog_row_image: make sure that it is FULL; "
                "then read the table again (--reset TABLE)",
            )
        if rule.before_images == "all":
            old = int(np.isin(batch.kinds, [UPDATE_BEFORE, DELETE]).sum())
            self.oddities[GENERATED_BEFORE] += old
        return self.options.missing.completed(batch, lacking, self.oddities)

    def _checked_statement(self, segment: Segment, event: int) -> Query:
        with events.reading(segment, event, "a statement in the binlog"):
            body = segment.body(event)
            query = parse_load(body) if segment.kind[event] == events.LOAD_QUERY else parse_query(body)
        # BEGIN and DDL are statements in every binlog format. Only changes of rows must not be.
        if query.verb not in CHANGES:
            return query
        written = written_tables(query)
        if self.options.folds_names:
            written = {(database.lower(), table.lower()) for database, table in written}
        touched = sorted(name for name in written if self.options.choice.includes(*name))
        if not touched and query.verb != "SELECT":
            self.oddities[STATEMENT_OF_OTHER] += 1
        else:
            raise StatementBinlogError(
                "a change was logged as a statement instead of rows, so the changed rows are unknown",
                table=", ".join(".".join(name) for name in touched) or "those that the called functions change",
                file=segment.file,
                pos=int(segment.pos[event]),
                statement=query.sql[:200],
                hint="SET PERSIST binlog_format = ROW, make sure that no session sets STATEMENT or MIXED, and "
                + ("read the table again (--reset TABLE)" if touched else "read the tables again (--resnapshot)"),
            )
        return query


def _incident(segment: Segment, event: int) -> UnsupportedBinlogEvent:
    return UnsupportedBinlogEvent(
        "the binlog contains an incident event",
        file=segment.file,
        pos=int(segment.pos[event]),
        hint="the server lost events at this position: read the tables again (--resnapshot)",
    )


def _partial(segment: Segment, group: EventGroup) -> RowImageError:
    return RowImageError(
        "the binlog contains rows without all their columns",
        table=group.shape.definition.qualified,
        file=segment.file,
        pos=int(segment.pos[group.event[0]]),
        hint="SET PERSIST binlog_row_image = FULL (MariaDB: SET GLOBAL), make sure that no session sets another "
        "value, and read the table again (--reset TABLE)",
    )


_DELETES, _UPDATES = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
_DELETES[[events.DELETE, events.DELETE_V1]] = True
_UPDATES[list(events.UPDATES)] = True
