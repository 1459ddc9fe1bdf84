"""Row images as rows of a batch: selects which images of an update become rows, and of which kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from penstock.byte_buffers import at_every_byte, ranges
from penstock.ingest.database.buffers import repeated
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.database.buffers import Places
    from penstock.ingest.mysql.binlog.row_layout import LocatedImages

Place = tuple["Int64s", "Int64s", "Bools"]
# The buffer, the places in it, the lengths and the nulls.
PlacedCells = tuple["Bytes", "Places", "Int64s", "Bools"]
# Cells up to this size are compared word by word. Fewer than SPARE, which follow the last cell of a buffer.
_FEW_BYTES = 32


class CellSource(Protocol):
    """Access to the cells of a table column: start, length, null.

    `placed` may return them in another buffer, in which those of neighbouring columns are side by side.
    """

    def cells(self, column: int) -> Place: ...
    def placed(self, data: Bytes, column: int) -> PlacedCells: ...
    def chosen(self, index: Int64s) -> CellSource: ...


@dataclass(slots=True)
class WholeImages:
    """LocatedImages that contain every column of the table."""

    images: LocatedImages

    def cells(self, column: int) -> Place:
        start, length = self.images.cells(column)
        return start, length, self.images.null[column]

    def placed(self, data: Bytes, column: int) -> PlacedCells:
        window = self.images.windowed(data, column)
        if window is None:
            return (data, *self.cells(column))
        return (*window, repeated(self.images.layout.widths[column], len(self.images)), self.images.null[column])

    def chosen(self, index: Int64s) -> WholeImages:
        return WholeImages(self.images.chosen(index))


@dataclass(slots=True)
class PartialImages:
    """LocatedImages that lack columns.

    A row has the columns of its image; absent columns come from the before image.
    """

    # images, column -> column of the images, image of each row or -1
    sources: list[tuple[LocatedImages, dict[int, int], Int64s]]
    size: int

    def cells(self, column: int) -> Place:
        start, length = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
        null = np.ones(self.size, np.bool_)
        absent = null.copy()
        for images, columns, image in self.sources:
            if column not in columns:
                continue
            fill = absent & (image >= 0)
            at, size = images.cells(columns[column])
            start[fill], length[fill] = at[image[fill]], size[image[fill]]
            null[fill] = images.null[columns[column]][image[fill]]
            absent &= ~fill
        return start, length, null

    def placed(self, data: Bytes, column: int) -> PlacedCells:
        return (data, *self.cells(column))

    def chosen(self, index: Int64s) -> PartialImages:
        sources = [(images, columns, image[index]) for images, columns, image in self.sources]
        return PartialImages(sources, len(index))


@dataclass(slots=True)
class EventRows:
    """The rows of one group of events, in order.

    `event` is the event's number in the segment, `row` counts within it.
    """

    event: Int64s
    row: Int64s
    is_update: Bools
    is_after: Bools
    source: CellSource

    def __len__(self) -> int:
        return len(self.event)

    @property
    def sub(self) -> Int64s:
        return 2 * self.row + self.is_after

    def chosen(self, index: Int64s) -> EventRows:
        return EventRows(
            self.event[index],
            self.row[index],
            self.is_update[index],
            self.is_after[index],
            self.source.chosen(index),
        )

    def as_changes(self, data: Bytes, delete: Bools, watched: Sequence[int], *, keep_all: bool) -> ImageRows:
        """Return the rows with their kinds, reduced to the images that are wanted.

        An update that changes a watched column becomes a delete and an insert. Of other updates the before image is
        kept only with `keep_all`.
        """
        kinds = np.where(delete, DELETE, INSERT).astype(np.int8)
        if not self.is_update.any():
            return ImageRows(self, kinds)
        before = np.flatnonzero(self.is_update & ~self.is_after)
        # The images of an update are in pairs, so the next row is its after image.
        after = before + 1
        moved = np.zeros(len(before), np.bool_)
        for column in watched:
            moved |= _differ(data, self.source.cells(column), before, after)
        kinds[before] = np.where(moved, DELETE, UPDATE_BEFORE)
        kinds[after] = np.where(moved, INSERT, UPDATE_AFTER)
        if keep_all or moved.all():
            return ImageRows(self, kinds)
        keep = np.ones(len(self), np.bool_)
        keep[before[~moved]] = False
        index = np.flatnonzero(keep)
        return ImageRows(self.chosen(index), kinds[index])


@dataclass(slots=True)
class ImageRows:
    """Rows with their kinds."""

    rows: EventRows
    kinds: RowKinds

    def __len__(self) -> int:
        return len(self.rows)


def whole_rows(images: LocatedImages, event: Int64s, is_update: Bools) -> EventRows:
    """Return the rows of images with a common layout; the images of an update are in pairs.

    ValueError for an update that has an odd number of images: its last row would take the first image of the next
    event.
    """
    update = is_update[images.event]
    if (np.bincount(images.event[update]) % 2).any():
        raise ValueError("an update has a row without its second image")
    row = np.where(update, images.step // 2, images.step)
    return EventRows(event[images.event], row, update, update & (images.step % 2 == 1), WholeImages(images))


def partial_rows(
    found: Sequence[LocatedImages], event: Int64s, before: Sequence[int], after: Sequence[int]
) -> EventRows:
    """Return the rows of inserts or deletes (one kind of image), or of updates (two kinds with different layouts)."""
    first = {column: place for place, column in enumerate(before)}
    if len(found) == 1:
        images = found[0]
        every = np.arange(len(images))
        no = np.zeros(len(images), np.bool_)
        return EventRows(event[images.event], images.step, no, no, PartialImages([(images, first, every)], len(images)))
    old, new = found
    if not np.array_equal(old.event, new.event):
        raise ValueError("an update has a row without its second image")
    second = {column: place for place, column in enumerate(after)}
    pair = np.repeat(np.arange(len(old)), 2)
    is_after = np.tile([False, True], len(old))
    # An after image has its own cells first; columns that the update left unchanged come from the before image.
    sources = [(new, second, np.where(is_after, pair, -1)), (old, first, pair)]
    return EventRows(
        event[old.event][pair],
        old.step[pair] // 2,
        np.ones(len(pair), np.bool_),
        is_after,
        PartialImages(sources, len(pair)),
    )


def _differ(data: Bytes, cells: Place, before: Int64s, after: Int64s) -> Bools:
    """Return whether the bytes of these pairs of cells differ."""
    start, length, null = cells
    differ: Bools = (null[before] != null[after]) | (length[before] != length[after]) & ~null[before]
    same_size = np.flatnonzero(~differ & ~null[before] & (length[before] > 0))
    if len(same_size):
        sizes = length[before[same_size]]
        differ[same_size] = _bytes_differ(data, start[before[same_size]], start[after[same_size]], sizes)
    return differ


def _bytes_differ(data: Bytes, old: Int64s, new: Int64s, sizes: Int64s) -> Bools:
    """Return whether the bytes from these pairs of positions on differ; no size is zero."""
    longest = int(sizes.max())
    if longest > _FEW_BYTES:
        old_bytes, offsets = ranges(data, old, sizes)
        new_bytes, _ = ranges(data, new, sizes)
        # Counts the unequal bytes of each pair. `reduceat` would return a byte of the next pair for an empty one.
        counted: Bools = np.add.reduceat(old_bytes != new_bytes, offsets[:-1], dtype=np.int64) > 0
        return counted
    words, differ = at_every_byte(data, "<u8"), np.zeros(len(sizes), np.bool_)
    for at in range(0, longest, 8):
        # What follows the cells is shifted out; a shift by all 64 bits makes zero in numpy.
        unused = (64 - 8 * np.clip(sizes - at, 0, 8)).view(np.uint64)
        differ |= (words[old + at] ^ words[new + at]) << unused > 0
    return differ
