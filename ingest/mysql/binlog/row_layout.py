"""Locating the cells of many row events at once.

Row images have no length field: inside an event they can only be found one after another. Events are independent of
each other, so one step finds one row of every event. The search reads only the lengths of cells
of variable length; the positions of all other cells are computed afterwards, for all rows together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.database.buffers import gathered, repeated, unsigned_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.byte_buffers import Bools, Bytes, Int64s


@dataclass(frozen=True, slots=True)
class RowImageLayout:
    """The layout of a row image, with one cell per present column.

    `widths` are bytes, or minus the bytes of a length prefix.
    """

    widths: tuple[int, ...]

    @property
    def null_bytes(self) -> int:
        return (len(self.widths) + 7) // 8


class LocatedImages:
    """The row images found, in the order of events and of rows within an event.

    `event` is the number of the event, `step` the number of the image within it, `null` has a row per column of the
    layout. The positions of cells of fixed width are computed when a column is requested: for a wide table, all
    positions together would not fit in memory. Those of variable width are put in order then, as many are never
    requested: `order` has the place of each image among the positions that the walk found.
    """

    def __init__(
        self, layout: RowImageLayout, event: Int64s, step: Int64s, row: Int64s, null: Bools, order: Int64s
    ) -> None:
        self.layout = layout
        self.event = event
        self.step = step
        self.null = null
        self._row = row  # position of the first cell of each image
        self._order = order
        self._found: dict[int, tuple[Int64s, Int64s]] = {}
        self._variable: dict[int, tuple[Int64s, Int64s]] = {}
        self._nullable = [bool(column.any()) for column in null]
        self._asked: tuple[int, Int64s] | None = None

    def __len__(self) -> int:
        return len(self.event)

    def found(self, column: int, start: Int64s, length: Int64s) -> None:
        """Store the positions of the contents of a variable-length column, in the order of the walk."""
        self._found[column] = start, length

    def cells(self, column: int) -> tuple[Int64s, Int64s]:
        """Return start and length of each cell's content. Cheapest if columns are requested in order."""
        if column in self._found:
            return self._content_of(column)
        return self._begin_of(column), repeated(self.layout.widths[column], len(self))

    def _content_of(self, column: int) -> tuple[Int64s, Int64s]:
        if column not in self._variable:
            start, length = self._found[column]
            self._variable[column] = start[self._order], length[self._order]
        return self._variable[column]

    def _begin_of(self, column: int) -> Int64s:
        known, at = self._asked or (-1, self._row)
        if known > column or self._asked is None:
            known, at = 0, self._row
        for passed in range(known, column):
            at = self._end_of(passed, at)
        # The next column continues from here, so requests in order cost one step each.
        self._asked = column, at
        return at

    def _end_of(self, column: int, at: Int64s) -> Int64s:
        width = self.layout.widths[column]
        if width >= 0:
            return at + (width * ~self.null[column] if self._nullable[column] else width)
        start, length = self._content_of(column)
        # The start of a variable cell is after its length prefix, and `width` is minus the bytes of that prefix: a
        # null cell has neither prefix nor content.
        return np.where(self.null[column], start + width, start + length) if self._nullable[column] else start + length

    def chosen(self, index: Int64s | Bools) -> LocatedImages:
        places = (self.event[index], self.step[index], self._row[index], self.null[:, index], self._order[index])
        located = LocatedImages(self.layout, *places)
        located._found = self._found
        return located


@dataclass(slots=True)
class _LocatedRows:
    """The results of the walk: one array per step, to be joined at the end."""

    events: list[Int64s]
    steps: list[int]
    rows: list[Int64s]
    nulls: list[Bytes]
    variable: list[list[tuple[Int64s, Int64s]]]


def locate_images(data: Bytes, start: Int64s, end: Int64s, layouts: Sequence[RowImageLayout]) -> list[LocatedImages]:
    """Return the images of the row areas [start, end), one list entry per layout.

    Image i of an event has layout i mod n.

    ValueError if an area does not end at the end of a row.
    """
    plans = [_RunPlan(layout) for layout in layouts]
    located = [_LocatedRows([], [], [], [], []) for _ in layouts]
    # An event may have no rows at all.
    event = np.flatnonzero(start < end)
    at, stop, step = start[event], end[event], 0
    while len(event):
        turn = step % len(plans)
        after = plans[turn].step(data, at, event, step, located[turn])
        going = after < stop
        # A layout without columns would never reach the end of its event.
        if (after > stop).any() or not any(plan.columns for plan in plans):
            raise ValueError("a row extends beyond its binlog event")
        # Spares three copies in each step in which no event ends.
        if going.all():
            at = after
        else:
            event, at, stop = event[going], after[going], stop[going]
        step += 1
    return [plan.finish(found) for plan, found in zip(plans, located, strict=True)]


class _RunPlan:
    """A layout split into runs of fixed-width cells, each ended by a cell of variable length or the end of the row."""

    def __init__(self, layout: RowImageLayout) -> None:
        self.layout = layout
        self.columns = len(layout.widths)
        self.fixed_width = np.array([max(width, 0) for width in layout.widths], np.int64)
        self.prefixes = [(column, -width) for column, width in enumerate(layout.widths) if width < 0]
        edges = [-1, *(column for column, _ in self.prefixes), self.columns]
        self.runs = [(first + 1, last) for first, last in pairwise(edges)]
        self.run_widths = [int(self.fixed_width[first:last].sum()) for first, last in self.runs]

    def step(self, data: Bytes, at: Int64s, event: Int64s, step: int, located: _LocatedRows) -> Int64s:
        """Record one row of every event and return the positions where they end."""
        nulls = gathered(data, at, self.layout.null_bytes)
        located.events.append(event)
        located.steps.append(step)
        located.rows.append(at)
        located.nulls.append(nulls)
        at = at + self.layout.null_bytes
        # A run without nulls has the same width in all rows, and few columns have any.
        absent = self._absent(nulls)
        cells: list[tuple[Int64s, Int64s]] = []
        for run, (first, last) in enumerate(self.runs):
            at = at + self.run_widths[run] if self.run_widths[run] else at
            for column in absent.keys() & range(first, last):
                at = at - self.fixed_width[column] * absent[column]
            if run < len(self.prefixes):
                column, prefix = self.prefixes[run]
                length = unsigned_at(data, at, prefix)
                cells.append((at + prefix, length))
                after = at + (prefix + length)
                at = np.where(absent[column], at, after) if column in absent else after
        located.variable.append(cells)
        return at

    def _absent(self, nulls: Bytes) -> dict[int, Bools]:
        """Return which rows have a null, for each column where some have."""
        has_nulls = np.unpackbits(np.bitwise_or.reduce(nulls, axis=0), count=self.columns, bitorder="little")
        return {column: nulls[:, column >> 3] >> (column & 7) & 1 > 0 for column in np.flatnonzero(has_nulls).tolist()}

    def finish(self, located: _LocatedRows) -> LocatedImages:
        if not located.events:
            none = np.zeros(0, np.int64)
            images = LocatedImages(self.layout, none, none, none, np.zeros((self.columns, 0), np.bool_), none)
            for column, _ in self.prefixes:
                images.found(column, none, none)
            return images
        event = np.concatenate(located.events)
        # A stable sort of 16-bit integers is a radix sort in numpy.
        order = np.argsort(event.astype(np.uint16) if event.max() < 1 << 16 else event, kind="stable")
        step = np.repeat(np.array(located.steps, np.int64), [len(events) for events in located.events])
        nulls = np.concatenate(located.nulls)[order]
        bits = np.unpackbits(nulls, axis=1, count=self.columns, bitorder="little")
        # Transposed, because callers read the nulls of one column. The view works because bits are bytes of 0 or 1.
        null = np.ascontiguousarray(bits.T).view(np.bool_)
        row = np.concatenate(located.rows)[order] + self.layout.null_bytes
        images = LocatedImages(self.layout, event[order], step[order], row, null, order)
        for number, (column, _) in enumerate(self.prefixes):
            start = np.concatenate([cells[number][0] for cells in located.variable])
            length = np.concatenate([cells[number][1] for cells in located.variable])
            images.found(column, start, length)
        return images
