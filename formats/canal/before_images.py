"""The before images of updates that are decoded in bulk, and their places among the other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.canal.message import Texts, watched_names
from penstock.formats.canal.old_documents import OldBlock, OldLayout
from penstock.formats.change import ImageRule, Int64s
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds


class BeforeImages:
    """The before images of updated rows, as row numbers and the texts that differ from the after image."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[Int64s] = []
        self._edits: dict[str, list[tuple[Int64s, pa.Array]]] = {}

    def add(self, rows: Int64s, changed: Mapping[str, pa.Array]) -> None:
        """Add the before images of rows. The same columns changed in each of these rows."""
        places = np.arange(self.count, self.count + len(rows))
        for name, texts in changed.items():
            self._edits.setdefault(name, []).append((places, texts))
        self._rows.append(rows)
        self.count += len(rows)

    def add_each(self, images: Sequence[tuple[int, Texts]]) -> None:
        """Add before images by the number of each row and its changed texts."""
        edits: dict[str, tuple[list[int], list[str | None]]] = {}
        for place, (_, changed) in enumerate(images, self.count):
            for name, text in changed.items():
                places, texts = edits.setdefault(name, ([], []))
                places.append(place)
                texts.append(text)
        for name, (places, texts) in edits.items():
            self._edits.setdefault(name, []).append((np.array(places), pa.array(texts, pa.string())))
        self._rows.append(np.array([row for row, _ in images], np.int64))
        self.count += len(images)

    @property
    def rows(self) -> Int64s:
        return np.concatenate(self._rows)

    def columns(self, names: Sequence[str], after: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the before images as columns: the after images with the changed texts replaced."""
        rows = pa.array(self.rows)
        columns = [column.take(rows) for column in after]
        for number, name in enumerate(names):
            if name in self._edits:
                mask = np.zeros(self.count, bool)
                for places, _ in self._edits[name]:
                    mask[places] = True
                texts = pa.concat_arrays([some for _, some in self._edits[name]])
                columns[number] = pc.replace_with_mask(columns[number], mask, texts)
        return columns


def add_layouts(befores: BeforeImages, block: OldBlock, members: Int64s, starts: Int64s) -> Int64s:
    """Add the before images of updates that are read by layout, and return the places of the others."""
    others = [block.others]
    for layout in block.layouts:
        rows = _rows_of(layout, members[layout.places], starts)
        if rows is None:
            others.append(layout.places)
        else:
            befores.add(rows, layout.rows.columns)
    return np.sort(np.concatenate(others))


def _rows_of(layout: OldLayout, members: Int64s, starts: Int64s) -> Int64s | None:
    """Return the row of each row of these documents, None if an update does not have as many rows as its `old`."""
    first = layout.rows.first_rows
    counts = np.diff(first)
    if not np.array_equal(starts[members + 1] - starts[members], counts):
        return None
    rows: Int64s = np.repeat(starts[members] - first[:-1], counts) + np.arange(layout.rows.rows)
    return rows


def mentioning(olds: Sequence[bytes], rule: ImageRule) -> Int64s:
    """Return the positions of the `old` values that `may_move` accepts, with one search over all of them."""
    pattern = watched_names(rule)
    if pattern is None or not olds:
        return np.arange(len(olds)) if rule.watch else np.empty(0, np.int64)
    text = b"\n".join(olds) + b"\n"
    hits = [match.start() for match in pattern.finditer(text)]
    # Usually nothing is escaped, and then a single search shows it. An `old` with an escape is always selected, because
    # an escape can spell any name, even if it turns out to be in a value.
    at = text.find(b"\\")
    while at >= 0:
        hits.append(at)
        at = text.find(b"\\", text.find(b"\n", at))
    ends = np.cumsum([len(old) + 1 for old in olds])
    return np.unique(np.searchsorted(ends, hits, side="right"))


def with_befores(
    befores: BeforeImages, columns: list[pa.Array], names: Sequence[str], kinds: RowKinds, rule: ImageRule
) -> tuple[list[pa.Array], RowKinds, Int64s]:
    """Return all rows in message order, each before image directly ahead of its after image.

    Also returns their kinds, and the number of the row that each belongs to.
    """
    rows = befores.rows
    images = befores.columns(names, columns)
    moved = _moved(columns, images, rows, names, rule)
    if rule.before_images != "all":
        images = [image.filter(pa.array(moved)) for image in images]
        rows = rows[moved]
        moved = np.ones(len(rows), bool)
    kinds = kinds.copy()
    kinds[rows] = np.where(moved, INSERT, UPDATE_AFTER)
    before_kinds = np.where(moved, DELETE, UPDATE_BEFORE).astype(np.int8)
    row_of = np.concatenate([np.arange(len(kinds)), rows])
    # Row n has the sort key 2n + 1 and its before image 2n.
    order = np.argsort(np.concatenate([2 * np.arange(len(kinds)) + 1, 2 * rows]), kind="stable")
    places = pa.array(order)
    merged = [pa.concat_arrays([column, image]).take(places) for column, image in zip(columns, images, strict=True)]
    return merged, np.concatenate([kinds, before_kinds])[order], row_of[order]


def _moved(
    columns: Sequence[pa.Array], images: Sequence[pa.Array], rows: Int64s, names: Sequence[str], rule: ImageRule
) -> np.ndarray:
    moved = np.zeros(len(rows), bool)
    watch = {name.lower() for name in rule.watch}
    for name, column, image in zip(names, columns, images, strict=True):
        if name.lower() in watch:
            present = column.take(pa.array(rows))
            same = pc.or_(
                pc.fill_null(pc.equal(present, image), fill_value=False), pc.and_(present.is_null(), image.is_null())
            )
            moved |= ~np.asarray(same)
    return moved
