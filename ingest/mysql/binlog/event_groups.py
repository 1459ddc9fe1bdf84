"""Grouping of row events that can be decoded together: same table, same definition, same columns in the image."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.byte_buffers import at_every_byte
from penstock.errors import SourceError
from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.options import NoDefinitions
from penstock.ingest.mysql.binlog.table_layout import shape_of
from penstock.ingest.mysql.binlog.table_map import parse_table_map
from penstock.ingest.mysql.errors import PartialJsonError, UnsupportedBinlogEvent

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools
    from penstock.ingest.mysql.binlog.options import BinlogOptions
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.binlog.table_layout import BinlogTable
    from penstock.ingest.mysql.binlog.table_map import TableMap
    from penstock.ingest.mysql.definition import TableDefinition

_MAPS_AND_ROWS = np.zeros(256, np.bool_)
_MAPS_AND_ROWS[[events.TABLE_MAP, *events.ROWS, events.PARTIAL_UPDATE]] = True
_OTHERS = np.zeros(256, np.bool_)
_OTHERS[[events.QUERY, events.LOAD_QUERY, events.INCIDENT]] = True
_V2 = frozenset({events.WRITE, events.UPDATE, events.DELETE})
# Bytes of the table id, with which table maps and row events begin.
_TABLE_ID = 6


@dataclass(slots=True)
class EventGroup:
    """Numbers of the events in the segment, and the positions where their rows start.

    Whole images all have the same layout and form one group; updates with partial images form a separate group.
    """

    shape: BinlogTable
    before: bytes
    after: bytes
    apart: bool
    event: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Table:
    """A table as described by one table map; `shape` belongs to the definition it was last completed with.

    `seen` caches, by kind of event, the latest header (from after the flags to the rows) and its group: nearly always
    the next event has the same header.
    """

    mapped: TableMap
    wanted: bool
    is_skipped: bool = False
    definition: TableDefinition | None = None
    shape: BinlogTable | None = None
    seen: dict[int, tuple[bytes, EventGroup]] = field(default_factory=dict)


class TableMapTracker:
    """The table maps in force, tracked from event to event and from segment to segment.

    A transaction, and with it its table maps, may span several segments.
    """

    def __init__(self, options: BinlogOptions) -> None:
        self._options = options
        self._tracked = not isinstance(options.definitions, NoDefinitions)
        # A table id is only an alias within a transaction: it changes after DDL and when the server opens the table
        # again. The bytes of the map describe the table.
        self._by_map: dict[bytes, _Table] = {}
        self._by_id: dict[bytes, _Table] = {}

    def remember(self, body: bytes, *, mariadb: bool) -> bool:
        """Remember the body of a TABLE_MAP before the first segment; return whether its table is captured."""
        table = self._by_id[body[:_TABLE_ID]] = self._table(body, mariadb=mariadb)
        return table.wanted

    def groups(self, segment: Segment) -> list[EventGroup]:
        """Return the row events of a segment in groups; events of uncaptured tables are skipped."""
        chosen = np.flatnonzero(_MAPS_AND_ROWS[segment.kind])
        raw, by_map, by_id = segment.raw, self._by_map, self._by_id
        places = (chosen, segment.kind[chosen], segment.start[chosen] + events.HEADER, segment.end[chosen])
        touched: dict[int, EventGroup] = {}
        # Groups belong to one segment: the numbers of their events are places in its arrays.
        for table in by_map.values():
            table.seen.clear()
        for event, kind, start, end in zip(*(values.tolist() for values in places), strict=True):
            if kind == events.TABLE_MAP:
                body = bytes(raw[start:end])
                # A server repeats the table map in every transaction, mostly with the same bytes: those are parsed
                # once.
                table = by_map.get(body) or self._read_map(segment, event, body)
                by_id[body[:_TABLE_ID]] = table
                if table.wanted and self._tracked:
                    place = table.mapped.name, segment.file, int(segment.pos[event])
                    table.is_skipped = self._options.definitions.is_skipped(*place)
                    if not table.is_skipped:
                        self._complete(table, segment, event)
                continue
            known = by_id.get(bytes(raw[start : start + _TABLE_ID]))
            if known is None:
                raise unreadable(segment, event, "row events without a table map event before them")
            if not known.wanted or known.is_skipped:
                continue
            if kind == events.PARTIAL_UPDATE:
                raise _differences(segment, event, known)
            header, group = known.seen.get(kind) or (b"\0", None)
            # The table id and two bytes of flags precede the header. Equal bytes after them mean the same columns,
            # so the header need not be parsed again.
            rows = start + 8 + len(header)
            if group is None or bytes(raw[start + 8 : rows]) != header:
                rows, group = self._read_header(known, segment, event, touched)
            group.event.append(event)
            group.start.append(rows)
        return list(touched.values())

    def _table(self, body: bytes, *, mariadb: bool) -> _Table:
        mapped = parse_table_map(body[_TABLE_ID:], mariadb=mariadb)
        table = _Table(mapped, self._options.choice.includes(mapped.database, mapped.table))
        self._by_map[body] = table
        return table

    def _read_map(self, segment: Segment, event: int, body: bytes) -> _Table:
        with events.reading(segment, event, "a table map event in the binlog"):
            return self._table(body, mariadb=segment.mariadb)

    def _complete(self, table: _Table, segment: Segment, event: int) -> BinlogTable:
        place = int(segment.pos[event])
        known, named = self._options.definitions, table.mapped.has_names
        definition = known.definition_at(table.mapped.name, segment.file, place, named=named)
        if table.shape is None or definition is not table.definition:
            with events.reading(segment, event, f"the table map event of {'.'.join(table.mapped.name)}"):
                table.shape, table.definition = shape_of(table.mapped, definition), definition
            table.seen.clear()
        return table.shape

    def _read_header(
        self, table: _Table, segment: Segment, event: int, touched: dict[int, EventGroup]
    ) -> tuple[int, EventGroup]:
        """Return the position where the rows of an event start, and the event's group."""
        with events.reading(segment, event, "row events in the binlog"):
            return self._parse_header(table, segment, event, touched)

    def _parse_header(
        self, table: _Table, segment: Segment, event: int, touched: dict[int, EventGroup]
    ) -> tuple[int, EventGroup]:
        raw, kind = segment.raw, int(segment.kind[event])
        begin = at = int(segment.start[event]) + events.HEADER + 8
        if kind in _V2:
            at += raw[at] | raw[at + 1] << 8
        count = raw[at]
        at += 1
        # More than 250 columns: 0xFC is followed by the count in two bytes.
        if count >= 0xFB:
            count, at = int.from_bytes(raw[at : at + 2], "little"), at + 2
        width = (count + 7) // 8
        before = bytes(raw[at : at + width])
        at += width
        after = before
        if kind in events.UPDATES:
            after = bytes(raw[at : at + width])
            at += width
        shape = table.shape or self._complete(table, segment, event)
        if at > segment.end[event] or count != len(shape.columns):
            raise unreadable(segment, event, "the row event and its table map differ in the number of columns")
        whole = len(shape.present(before)) == len(shape.present(after)) == count
        apart = kind in events.UPDATES and not whole
        sought = (before, after, apart)
        same = (
            group
            for group in touched.values()
            if group.shape is shape and (group.before, group.after, group.apart) == sought
        )
        group = next(same, None) or EventGroup(shape, *sought)
        touched[id(group)] = group
        table.seen[kind] = bytes(raw[begin:at]), group
        return at, group


def _differences(segment: Segment, event: int, table: _Table) -> PartialJsonError:
    return PartialJsonError(
        "the binlog contains partial JSON updates instead of whole values",
        table=".".join(table.mapped.name),
        file=segment.file,
        pos=int(segment.pos[event]),
        hint="SET PERSIST binlog_row_value_options = '', reconnect writers, read the table again (--reset TABLE)",
    )


def others(segment: Segment) -> list[int]:
    """Return the events other than table maps and rows that need parsing; BEGIN and COMMIT do not."""
    chosen = _OTHERS[segment.kind]
    chosen &= ~brackets(segment)
    places: list[int] = np.flatnonzero(chosen).tolist()
    return places


def brackets(segment: Segment) -> Bools:
    """Return which events are a transaction's BEGIN or COMMIT, without parsing them."""
    # The database name, empty or not, is followed by a zero and the word; no other statement ends like this.
    words = at_every_byte(segment.data, "<u8")[np.maximum(segment.end - 8, 0)]
    begin = (words >> np.uint64(16)) == int.from_bytes(b"\0BEGIN", "little")
    commit = (words >> np.uint64(8)) == int.from_bytes(b"\0COMMIT", "little")
    is_bracket: Bools = (segment.kind == events.QUERY) & (begin | commit)
    return is_bracket


def unreadable(segment: Segment, event: int, reason: str) -> SourceError:
    """Return the error for row events that cannot be read, with file and position."""
    return UnsupportedBinlogEvent(
        f"row events in the binlog cannot be decoded: {reason}", file=segment.file, pos=int(segment.pos[event])
    )
