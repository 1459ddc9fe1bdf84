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

from penstock.byte_buffers import at_every_byte, gathered_rows, has_any
from penstock.ingest.database.buffers import SPARE, EvenPlaces, is_repeated, repeated, unsigned_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.database.buffers import UInt64s

_WORD = 8


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

    `event` is the number of the event, `step` the number of the image within it, `null` has an array per column of
    the layout. The positions of cells of fixed width are computed when a column is requested: for a wide table, all
    positions together would not fit in memory. Those of variable width are put in order then, as many are never
    requested: `order` has the place of each image among the positions that the walk found.
    """

    def __init__(
        self, layout: RowImageLayout, event: Int64s, step: Int64s, row: Int64s, null: list[Bools], order: Int64s
    ) -> None:
        self.layout = layout
        self.event = event
        self.step = step
        self.null = null
        self._row = row  # position of the first cell of each image
        self._order = order
        self._found: dict[int, tuple[Int64s, Int64s]] = {}
        self._variable: dict[int, tuple[Int64s, Int64s]] = {}
        self._nullable = [has_any(column) for column in null]
        self._asked: tuple[int, Int64s] | None = None
        self._window: tuple[int, Bytes] | None = None  # the first column of a run, and its cells of all images

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

    def windowed(self, data: Bytes, column: int) -> tuple[Bytes, EvenPlaces] | None:
        """Return the cells of a column in a buffer with those of its neighbours, if they are at the same distances.

        Columns of fixed width without nulls are at the same distances in all images. The bytes of neighbours are
        fetched together.
        """
        if not self._is_even(column):
            return None
        first = last = column
        while first and self._is_even(first - 1):
            first -= 1
        while last < len(self.null) and self._is_even(last):
            last += 1
        widths = self.layout.widths[first:last]
        # A number is read with up to seven bytes that follow it.
        size = sum(widths) + _WORD
        if last - first < 2 or size > SPARE:
            return None
        if self._window is None or self._window[0] != first:
            self._window = first, gathered_rows(data, self._begin_of(first), size).reshape(-1)
        return self._window[1], EvenPlaces(sum(widths[: column - first]), size, len(self))

    def _is_even(self, column: int) -> bool:
        return self.layout.widths[column] >= 0 and not self._nullable[column]

    def _content_of(self, column: int) -> tuple[Int64s, Int64s]:
        if column not in self._variable:
            start, length = self._found[column]
            self._variable[column] = start[self._order], length[self._order]
        return self._variable[column]

    def _begin_of(self, column: int) -> Int64s:
        known, at = self._asked or (-1, self._row)
        if known > column or self._asked is None:
            known, at = 0, self._row
        # The end of a cell of variable width is known without those before it.
        known = max([known, *(variable for variable in self._found if variable < column)])
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
        event = self.event[index]
        null = [repeated(value=False, count=len(event)) if is_repeated(nulls) else nulls[index] for nulls in self.null]
        located = LocatedImages(self.layout, event, self.step[index], self._row[index], null, self._order[index])
        located._found = self._found
        return located


@dataclass(slots=True)
class _LocatedRows:
    """The results of the walk: one array per step, to be joined at the end."""

    events: list[Int64s]
    steps: list[int]
    rows: list[Int64s]
    nulls: list[list[UInt64s]]
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
        # The bits of nulls are read in words of 64 columns.
        self.null_masks = [(1 << min(self.columns - word, 64)) - 1 for word in range(0, self.columns, 64)]

    def step(self, data: Bytes, at: Int64s, event: Int64s, step: int, located: _LocatedRows) -> Int64s:
        """Record one row of every event and return the positions where they end."""
        words = at_every_byte(data, "<u8")
        nulls = [words[at + 8 * place] & np.uint64(mask) for place, mask in enumerate(self.null_masks)]
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

    def _absent(self, nulls: list[UInt64s]) -> dict[int, Bools]:
        """Return which rows have a null, for each column where some have."""
        absent: dict[int, Bools] = {}
        for place, word in enumerate(nulls):
            bits = int(np.bitwise_or.reduce(word))
            while bits:
                bit = (bits & -bits).bit_length() - 1
                absent[64 * place + bit] = word & np.uint64(1 << bit) > 0
                bits &= bits - 1
        return absent

    def finish(self, located: _LocatedRows) -> LocatedImages:
        if not located.events:
            none = np.zeros(0, np.int64)
            no_nulls = [np.zeros(0, np.bool_)] * self.columns
            images = LocatedImages(self.layout, none, none, none, no_nulls, none)
            for column, _ in self.prefixes:
                images.found(column, none, none)
            return images
        event = np.concatenate(located.events)
        # A stable sort of 16-bit integers is a radix sort in numpy.
        order = np.argsort(event.astype(np.uint16) if event.max() < 1 << 16 else event, kind="stable")
        step = np.repeat(np.array(located.steps, np.int64), [len(events) for events in located.events])
        absent = self._absent([np.concatenate(words)[order] for words in zip(*located.nulls, strict=True)])
        nowhere = repeated(value=False, count=len(order))
        null = [absent.get(column, nowhere) for column in range(self.columns)]
        row = np.concatenate(located.rows)[order] + self.layout.null_bytes
        images = LocatedImages(self.layout, event[order], step[order], row, null, order)
        for number, (column, _) in enumerate(self.prefixes):
            start = np.concatenate([cells[number][0] for cells in located.variable])
            length = np.concatenate([cells[number][1] for cells in located.variable])
            images.found(column, start, length)
        return images
