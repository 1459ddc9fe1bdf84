"""The elements of many documents, found at once.

All documents are walked in step: at each step, documents whose next elements have the same type and name advance
together. The cost is one comparison per step and distinct name, for any number of documents.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.byte_buffers import Bytes, Int64s, at_every_byte
from penstock.errors import SourceError
from penstock.ingest.database.buffers import unsigned_at, with_spare_bytes

# The types of BSON values, as numbers.
DOUBLE, STRING, DOCUMENT, ARRAY, BINARY, UNDEFINED, OBJECT_ID, BOOL, DATE, NULL = range(1, 11)
REGEX, DB_POINTER, CODE, SYMBOL, SCOPED_CODE, INT32, TIMESTAMP, INT64, DECIMAL128 = range(11, 20)
MAX_KEY, MIN_KEY = 0x7F, 0xFF

_WIDTHS = {
    DOUBLE: 8, UNDEFINED: 0, OBJECT_ID: 12, BOOL: 1, DATE: 8, NULL: 0, INT32: 4, TIMESTAMP: 8, INT64: 8, DECIMAL128: 16,
    MAX_KEY: 0, MIN_KEY: 0,
}  # fmt: skip
# The bytes that the number of 32 bits before a value does not count: the number itself, and for some types more.
_PREFIXES = {STRING: 4, CODE: 4, SYMBOL: 4, DOCUMENT: 0, ARRAY: 0, SCOPED_CODE: 0, BINARY: 5, DB_POINTER: 16}
# The fewest bytes of values that contain their length, with their zero bytes.
_LEAST = {STRING: 5, CODE: 5, SYMBOL: 5, DOCUMENT: 5, ARRAY: 5, SCOPED_CODE: 14, BINARY: 5, DB_POINTER: 17}
DAMAGE_HINT = "start again; if it happens again, run  db.runCommand({validate: ...})  on the collection"
_SHORTEST = 5  # bytes of an empty document
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
            check_places((start + length <= ends) & (length >= _LEAST.get(kind, 0)), start)
            following[chosen] = start + length
            parts.append(ElementSegment(step, kind, name, lanes[chosen], start, length))
        position = following
        step += 1
    return parts


def _ends(block: Block, at: Int64s) -> Int64s:
    """Return where the documents end that begin at these positions."""
    size = len(block.raw)
    check_places((at >= 0) & (at + _SHORTEST <= size), at)
    length = unsigned_at(block.data, at, 4)
    check_places((length >= _SHORTEST) & (at + length <= size), at)
    return at + length


def check_places(right: npt.NDArray[np.bool_], position: Int64s) -> None:
    """Raise SourceError with the first position that is not right."""
    if not right.all():
        raise damaged(int(position[int(np.argmin(right))]))


def _unknown_type(kind: int, position: int) -> SourceError:
    return SourceError(
        "the server sent a value of an unknown BSON type",
        type=kind,
        position=position,
        hint="the server is newer than this penstock supports: upgrade penstock, or leave the collection out",
    )


def damaged(position: int) -> SourceError:
    return SourceError("the server sent a damaged document", position=position, hint=DAMAGE_HINT)


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
    width = _WIDTHS.get(kind)
    if width is not None:
        return np.full(len(start), width, np.int64)
    prefix = _PREFIXES.get(kind)
    if prefix is not None:
        return unsigned_at(block.data, start, 4) + prefix
    if kind == REGEX:
        raw = block.raw
        try:
            ends = [raw.index(b"\0", raw.index(b"\0", begin) + 1) + 1 for begin in start.tolist()]
        except ValueError as reason:
            raise damaged(int(start[0])) from reason
        return np.fromiter(ends, np.int64, len(start)) - start
    raise _unknown_type(kind, int(start[0]))


def members(raw: bytes, at: int = 0) -> dict[str, tuple[int, int]]:
    """Return type and position of the values of one document, by name. For the few documents around the data."""
    found: dict[str, tuple[int, int]] = {}
    position = at + 4
    try:
        while raw[position]:
            end = raw.index(b"\0", position + 1)
            kind, name = raw[position], raw[position + 1 : end].decode()
            found[name] = kind, end + 1
            position = end + 1 + _length(raw, kind, end + 1)
    except (IndexError, ValueError, struct.error) as reason:
        raise damaged(position) from reason
    return found


def _length(raw: bytes, kind: int, start: int) -> int:
    if kind in _WIDTHS:
        return _WIDTHS[kind]
    if kind in _PREFIXES:
        length = int(_number(raw, start)[0]) + _PREFIXES[kind]
        if length < _LEAST[kind]:
            raise damaged(start)
        return length
    raise _unknown_type(kind, start)


def text_at(raw: bytes, start: int) -> str:
    """Return the text whose length is at this position."""
    try:
        return raw[start + 4 : start + 3 + _number(raw, start)[0]].decode()
    except (ValueError, struct.error) as reason:
        raise damaged(start) from reason


def documents_at(raw: bytes, array: int) -> Int64s:
    """Return where the documents of an array begin."""
    begins: list[int] = []
    try:
        _find_documents(raw, array, begins)
    except struct.error as reason:
        raise damaged(array) from reason
    return np.array(begins, np.int64)


def _find_documents(raw: bytes, array: int, begins: list[int]) -> None:
    position, end, width, number = array + 4, array + _number(raw, array)[0] - 1, 3, 0
    # The names of elements are the numbers from 0 on. They are skipped by their number of digits.
    following = 10
    while position < end:
        start = position + width
        begins.append(start)
        size = _number(raw, start)[0]
        if size < _SHORTEST:
            raise damaged(start)
        position = start + size
        number += 1
        if number == following:
            width += 1
            following *= 10
