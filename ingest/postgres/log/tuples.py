"""Row images in the log: each message is a lane, and a column is located in all lanes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.database.buffers import at_every_byte
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.values.cells import Cells

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bools, Bytes, Int64s

_NULL, _UNCHANGED, _TEXT, _BINARY = b"nutb"


@dataclass(slots=True)
class Images:
    """Row images with the cells of each column.

    `unchanged` cells are values stored out of line that an update did not touch: the log does not contain them. They
    are null in `cells`.
    """

    cells: list[Cells]
    unchanged: list[Bools]
    end: Int64s
    binary: bool  # the format of all values

    def __len__(self) -> int:
        return len(self.end)


def images_at(data: Bytes, at: Int64s, columns: int) -> Images:
    """Return the images that begin at these positions; UnexpectedMessage if one has other columns."""
    if len(at) and (at_every_byte(data, ">i2")[at] != columns).any():
        raise UnexpectedMessage("a row in the log has another number of columns than its table", wanted=columns)
    sizes = at_every_byte(data, ">i4")
    at = at + 2
    cells, unchanged = [], []
    formats: set[int] = set()
    for _ in range(columns):
        kind = data[at]
        has_value = (kind == _TEXT) | (kind == _BINARY)
        length = np.where(has_value, sizes[at + 1], 0).astype(np.int64)
        formats.update(np.unique(kind).tolist())
        cells.append(Cells(data, at + 5, length, ~has_value))
        unchanged.append(kind == _UNCHANGED)
        at = at + np.where(has_value, 5, 1) + length
    if not formats <= {_NULL, _UNCHANGED, _TEXT, _BINARY} or {_TEXT, _BINARY} <= formats:
        raise UnexpectedMessage("a row in the log has values in an unknown format", formats=bytes(sorted(formats)))
    return Images(cells, unchanged, at, _BINARY in formats)


def joined(before: Images, after: Images, order: Int64s) -> Images:
    """Return old and new images as one, in this order of their numbers; new ones are counted after the old ones."""
    cells = [
        Cells(
            one.data,
            np.concatenate([one.start, other.start])[order],
            np.concatenate([one.length, other.length])[order],
            np.concatenate([one.null, other.null])[order],
        )
        for one, other in zip(before.cells, after.cells, strict=True)
    ]
    unchanged = [
        np.concatenate([one, other])[order] for one, other in zip(before.unchanged, after.unchanged, strict=True)
    ]
    end = np.concatenate([before.end, after.end])[order]
    return Images(cells, unchanged, end, before.binary or after.binary)


def take_from_old(images: Images, new: Int64s, old: Int64s) -> None:
    """Take unchanged values of new images from the whole old images of the same rows."""
    for place, unchanged in enumerate(images.unchanged):
        some = unchanged[new]
        if some.any():
            cells, to, source = images.cells[place], new[some], old[some]
            cells.start[to], cells.length[to] = cells.start[source], cells.length[source]
            cells.null[to] = cells.null[source]
            unchanged[to] = unchanged[source]
