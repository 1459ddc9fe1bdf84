"""The elements of many documents, found at once.

All documents are walked in step: at each step those whose next element has the same type and name advance together. The
cost is one comparison per step and distinct name, whatever the number of documents.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.errors import SourceError
from penstock.ingest.database.buffers import Bytes, Int64s, at_every_byte, unsigned_at, with_spare_bytes

# The types of BSON values, as numbers.
DOUBLE, STRING, DOCUMENT, ARRAY, BINARY, UNDEFINED, OBJECT_ID, BOOL, DATE, NULL = range(1, 11)
REGEX, DB_POINTER, CODE, SYMBOL, SCOPED_CODE, INT32, TIMESTAMP, INT64, DECIMAL128 = range(11, 20)
MAX_KEY, MIN_KEY = 0x7F, 0xFF

_WIDTHS = {
    DOUBLE: 8, UNDEFINED: 0, OBJECT_ID: 12, BOOL: 1, DATE: 8, NULL: 0, INT32: 4, TIMESTAMP: 8, INT64: 8, DECIMAL128: 16,
    MAX_KEY: 0, MIN_KEY: 0,
}  # fmt: skip
# What the number of 32 bits before a value does not count: itself, and for some types more.
_PREFIXES = {STRING: 4, CODE: 4, SYMBOL: 4, DOCUMENT: 0, ARRAY: 0, SCOPED_CODE: 0, BINARY: 5, DB_POINTER: 16}
# At a step with more distinct names than this, the other documents are grouped one by one.
_COMPARED_NAMES = 12
_number = struct.Struct("<i").unpack_from


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
    """Return the elements of the documents that begin at these positions, by their places in the documents."""
    found: list[ElementSegment] = []
    lanes, position, step = np.arange(len(at), dtype=np.int64), np.asarray(at, np.int64) + 4, 0
    while len(lanes):
        open_ = block.data[position] != 0
        if not open_.all():
            lanes, position = lanes[open_], position[open_]
        following = np.empty_like(position)
        for chosen, header in _same_headers(block, position):
            kind, name = header[0], header[1:-1]
            start = position[chosen] + len(header)
            length = _lengths(block, kind, start)
            following[chosen] = start + length
            found.append(ElementSegment(step, kind, name, lanes[chosen], start, length))
        position = following
        step += 1
    return found


_Chosen = npt.NDArray[np.int64] | slice
_ALL = slice(None)


def _same_headers(block: Block, position: Int64s) -> Iterator[tuple[_Chosen, bytes]]:
    """Yield the places of equal headers (type and name), and the header."""
    raw, rest = block.raw, None
    for _ in range(_COMPARED_NAMES):
        left = position if rest is None else position[rest]
        if not len(left):
            return
        first = int(left[0])
        header = raw[first : raw.index(b"\0", first + 1) + 1]
        equal = _equal(block.data, left, header)
        if equal.all():
            yield (_ALL if rest is None else rest), header
            return
        places = np.flatnonzero(equal)
        yield (places if rest is None else rest[places]), header
        other = np.flatnonzero(~equal)
        rest = other if rest is None else rest[other]
    groups: dict[bytes, list[int]] = {}
    for place in [] if rest is None else rest.tolist():
        first = int(position[place])
        groups.setdefault(raw[first : raw.index(b"\0", first + 1) + 1], []).append(place)
    for header, members in groups.items():
        yield np.array(members, np.int64), header


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
    width = _WIDTHS.get(kind)
    if width is not None:
        return np.full(len(start), width, np.int64)
    prefix = _PREFIXES.get(kind)
    if prefix is not None:
        return unsigned_at(block.data, start, 4) + prefix
    if kind == REGEX:
        raw = block.raw
        ends = (raw.index(b"\0", raw.index(b"\0", one) + 1) + 1 for one in start.tolist())
        return np.fromiter(ends, np.int64, len(start)) - start
    raise SourceError("the server sent a value of an unknown BSON type", type=kind, position=int(start[0]))


def members(raw: bytes, at: int = 0) -> dict[str, tuple[int, int]]:
    """Return type and position of the values of one document, by name. For the few documents around the data."""
    found: dict[str, tuple[int, int]] = {}
    position = at + 4
    while raw[position]:
        end = raw.index(b"\0", position + 1)
        kind, name = raw[position], raw[position + 1 : end].decode()
        found[name] = kind, end + 1
        position = end + 1 + _length(raw, kind, end + 1)
    return found


def _length(raw: bytes, kind: int, start: int) -> int:
    if kind in _WIDTHS:
        return _WIDTHS[kind]
    if kind in _PREFIXES:
        return int(_number(raw, start)[0]) + _PREFIXES[kind]
    raise SourceError("the server sent a value of an unknown BSON type", type=kind, position=start)


def text_at(raw: bytes, start: int) -> str:
    """Return the text whose length is at this position."""
    return raw[start + 4 : start + 3 + _number(raw, start)[0]].decode()


def documents_at(raw: bytes, array: int) -> Int64s:
    """Return where the documents of an array begin."""
    found: list[int] = []
    position, end, width, number = array + 4, array + _number(raw, array)[0] - 1, 3, 0
    # The names of elements are the numbers from 0 on. They are skipped by their number of digits.
    following = 10
    while position < end:
        start = position + width
        found.append(start)
        position = start + _number(raw, start)[0]
        number += 1
        if number == following:
            width += 1
            following *= 10
    return np.array(found, np.int64)
