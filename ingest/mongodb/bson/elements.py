"""The elements of many documents, found at once.

All documents are walked in step: at each step, documents whose next elements have the same type and name advance
together. The cost is one comparison per step and distinct name, for any number of documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.byte_buffers import Bytes, Int64s, at_every_byte
from penstock.ingest.database.buffers import unsigned_at, with_spare_bytes
from penstock.ingest.mongodb.bson.value_types import LEAST, PREFIXES, REGEX, SHORTEST, WIDTHS, damaged, unknown_type

# At a step with more distinct names than this, the other documents are grouped one by one.
_COMPARED_NAMES = 12


class Block:
    """A buffer with documents: as bytes for single reads, and as an array for reads at many positions."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    @cached_property
    def data(self) -> Bytes:
        return with_spare_bytes(self.raw)


@dataclass(frozen=True, slots=True)
class ElementSegment:
    """Elements of one type and name: element i belongs to document `lanes[i]`, and its value is at `start[i]`."""

    step: int
    kind: int
    name: bytes
    lanes: Int64s
    start: Int64s
    length: Int64s


def segments(block: Block, at: Int64s) -> list[ElementSegment]:
    """Return the elements of the documents that begin at these positions, by their places in the documents.

    Raise SourceError for a document whose elements do not end where it ends.
    """
    parts: list[ElementSegment] = []
    at = np.asarray(at, np.int64)
    lanes, position, step = np.arange(len(at), dtype=np.int64), at + 4, 0
    last = _ends(block, at) - 1  # the place of the zero byte that closes each document
    while len(lanes):
        open_ = block.data[position] != 0
        check_places(open_ == (position < last[lanes]), position)
        if not open_.all():
            lanes, position = lanes[open_], position[open_]
        following = np.empty_like(position)
        for chosen, header in _same_headers(block, position):
            kind, name = header[0], header[1:-1]
            start = position[chosen] + len(header)
            # The spare bytes allow to read the size of a value at the very end.
            ends = last[lanes[chosen]]
            check_places(start <= ends, start)
            length = _lengths(block, kind, start)
            # Otherwise the content would be read from other documents or from other memory.
            check_places((start + length <= ends) & (length >= LEAST.get(kind, 0)), start)
            following[chosen] = start + length
            parts.append(ElementSegment(step, kind, name, lanes[chosen], start, length))
        position = following
        step += 1
    return parts


def _ends(block: Block, at: Int64s) -> Int64s:
    """Return where the documents end that begin at these positions."""
    size = len(block.raw)
    check_places((at >= 0) & (at + SHORTEST <= size), at)
    length = unsigned_at(block.data, at, 4)
    check_places((length >= SHORTEST) & (at + length <= size), at)
    return at + length


def check_places(right: npt.NDArray[np.bool_], position: Int64s) -> None:
    """Raise SourceError with the first position that is not right."""
    if not right.all():
        raise damaged(int(position[int(np.argmin(right))]))


_Chosen = npt.NDArray[np.int64] | slice
_ALL = slice(None)


def _same_headers(block: Block, position: Int64s) -> Iterator[tuple[_Chosen, bytes]]:
    """Yield the places of equal headers (type and name), and the header."""
    raw, remaining = block.raw, None
    for _ in range(_COMPARED_NAMES):
        left = position if remaining is None else position[remaining]
        if not len(left):
            return
        first = int(left[0])
        header = _header(raw, first)
        equal = _equal(block.data, left, header)
        if equal.all():
            yield (_ALL if remaining is None else remaining), header
            return
        places = np.flatnonzero(equal)
        yield (places if remaining is None else remaining[places]), header
        other = np.flatnonzero(~equal)
        remaining = other if remaining is None else remaining[other]
    groups: dict[bytes, list[int]] = {}
    for place in [] if remaining is None else remaining.tolist():
        first = int(position[place])
        groups.setdefault(_header(raw, first), []).append(place)
    for header, members in groups.items():
        yield np.array(members, np.int64), header


def _header(raw: bytes, at: int) -> bytes:
    end = raw.find(b"\0", at + 1)
    if end < 0:
        raise damaged(at)
    return raw[at : end + 1]


def _equal(data: Bytes, position: Int64s, header: bytes) -> npt.NDArray[np.bool_]:
    """Return at which positions these bytes are. Compared in words of eight bytes."""
    words = at_every_byte(data, "<u8")
    # A word at the very end of the buffer would be read beyond it; the spare bytes are there for that.
    equal: npt.NDArray[np.bool_] | None = None
    for begin in range(0, len(header), 8):
        piece = header[begin : begin + 8]
        wanted = np.uint64(int.from_bytes(piece, "little"))
        seen = words[np.minimum(position + begin, len(words) - 1)]
        if len(piece) < 8:
            seen = seen & np.uint64((1 << 8 * len(piece)) - 1)
        same = seen == wanted
        equal = same if equal is None else equal & same
    assert equal is not None
    return equal


def _lengths(block: Block, kind: int, start: Int64s) -> Int64s:
    """Return how many bytes the values of this type have that begin at these positions."""
    width = WIDTHS.get(kind)
    if width is not None:
        return np.full(len(start), width, np.int64)
    prefix = PREFIXES.get(kind)
    if prefix is not None:
        return unsigned_at(block.data, start, 4) + prefix
    if kind == REGEX:
        raw = block.raw
        try:
            ends = [raw.index(b"\0", raw.index(b"\0", begin) + 1) + 1 for begin in start.tolist()]
        except ValueError as reason:
            raise damaged(int(start[0])) from reason
        return np.fromiter(ends, np.int64, len(start)) - start
    raise unknown_type(kind, int(start[0]))
