"""`old` of many updates: documents that name the same columns are read together, by their layout.

The others are left to a parser, which decides what an odd document means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa

from penstock.formats.canal.same_layout import MOST_BYTES, LayoutPiece, layout_piece
from penstock.formats.change import Int64s
from penstock.formats.json_bytes import COLON, QUOTE, Bytes
from penstock.formats.json_envelope import UNREADABLE

# For fewer documents that name the same columns, a parser is quicker.
FEWEST_ALIKE = 40
# Odd random numbers, by which the names of a document are weighted in their order.
_WEIGHTS = np.random.default_rng(11).integers(1 << 62, 1 << 63, 64, dtype=np.uint64) | np.uint64(1)
_documents = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class OldLayout:
    """Documents that name the same columns in all of their rows: their places in a block, and the rows."""

    places: Int64s
    rows: LayoutPiece


@dataclass(frozen=True)
class OldBlock:
    """`old` of some updates, in their order: as objects of Python, or as an array of binaries."""

    given: Sequence[bytes] | pa.Array

    def __len__(self) -> int:
        return len(self.given)

    @cached_property
    def documents(self) -> Sequence[bytes]:
        """The documents as objects of Python."""
        found: Sequence[bytes] = self.given.to_pylist() if isinstance(self.given, pa.Array) else self.given
        return found

    @cached_property
    def texts(self) -> pa.Array:
        """The documents as an array."""
        if isinstance(self.given, pa.Array):
            return self.given
        return pa.array([bytes(text) for text in self.given], pa.binary())

    @property
    def layouts(self) -> Sequence[OldLayout]:
        """The documents that are proven to be JSON, in groups."""
        return self._found[0]

    @property
    def others(self) -> Int64s:
        """The places of all other documents."""
        return self._found[1]

    def are_json(self, *, by_layout: bool) -> bool:
        """Return whether each of the documents is one JSON value.

        A parser is quicker than layouts, unless these are needed anyway.
        """
        if not by_layout:
            return _are_json(self.documents)
        return not len(self.others) or _are_json([self.documents[place] for place in self.others.tolist()])

    @cached_property
    def _found(self) -> tuple[list[OldLayout], Int64s]:
        text, bounds = content(self.texts)
        if len(self) < FEWEST_ALIKE or len(text) > MOST_BYTES:
            return [], np.arange(len(self))
        kinds, kind_of, counts = np.unique(_signatures(text, bounds), return_inverse=True, return_counts=True)
        found = []
        for kind in np.flatnonzero(counts >= FEWEST_ALIKE).tolist():
            places = np.flatnonzero(kind_of == kind)
            if len(kinds) > 1:
                text, bounds = content(self.texts.take(pa.array(places)))
            rows = layout_piece(text.tobytes(), bounds[1:])
            if rows is not None:
                found.append(OldLayout(places, rows))
        is_other = np.ones(len(self), np.bool_)
        for layout in found:
            is_other[layout.places] = False
        return found, np.flatnonzero(is_other)


def content(texts: pa.Array) -> tuple[Bytes, Int64s]:
    """Return the bytes of all texts, one after the other, and where each begins and the last one ends."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]], (bounds - bounds[0]).astype(np.int64)


def _signatures(text: Bytes, bounds: Int64s) -> np.ndarray:
    """Return a number for each document that depends on the lengths and on letters of its names."""
    marks = np.flatnonzero(text[:-1] == QUOTE)
    # The mark before one that a colon follows opens the name.
    closing = np.flatnonzero(text[marks + 1] == COLON)
    closing = closing[closing > 0]
    opens, closes = marks[closing - 1], marks[closing]
    # Two bytes from every place.
    pairs = np.ndarray((max(len(text) - 1, 0),), "<u2", text.data, 0, (1,))
    names = pairs[opens + 1].astype(np.uint64) << np.uint64(16) | pairs[closes - 2]
    names ^= (closes - opens).astype(np.uint64) << np.uint64(32)
    first = np.searchsorted(closes, bounds)
    number = np.arange(len(closes)) - np.repeat(first[:-1], np.diff(first))
    sums = np.zeros(len(closes) + 1, np.uint64)
    np.cumsum(names * _WEIGHTS[number % len(_WEIGHTS)], out=sums[1:])
    found: np.ndarray = sums[first[1:]] - sums[first[:-1]]
    return found


def _are_json(documents: Sequence[bytes]) -> bool:
    try:
        found = _documents(b"[" + b",".join(documents) + b"]")
    except UNREADABLE:
        return False
    # Values of the same lengths, one after the other, are where the documents are.
    return list(map(len, found)) == list(map(len, documents))
