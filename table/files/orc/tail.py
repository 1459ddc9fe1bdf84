"""What stands behind the stripes of an ORC file: postscript, footer and stripe footers, by ORC's specification."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import cramjam

from penstock.errors import TableCorrupt
from penstock.table.files.orc.protobuf import Message

HEADER = b"ORC"


class Kind(IntEnum):
    """Of types."""

    LONG = 4
    STRING = 7
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    CHAR = 17
    INSTANT = 18


_MOST_DIGITS, _DEEPEST = 38, 100
_MEMBERS: dict[int, int] = {Kind.LIST: 1, Kind.MAP: 2}
_LARGEST_BLOCK = 1 << 23  # what three bytes of a chunk's length can say
_LARGEST_TAIL = 256 << 20  # bytes of one message, unpacked


class Stream(IntEnum):
    DATA = 1
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8


INDEX_STREAMS = (Stream.ROW_INDEX, Stream.BLOOM_FILTER, Stream.BLOOM_FILTER_UTF8)


@dataclass(frozen=True, slots=True)
class Part:
    """A stream of a stripe, and where it lies in the file."""

    kind: int
    column: int
    offset: int
    length: int


def _lz4(data: bytes, room: int) -> bytes:
    out = bytearray(room)
    return bytes(out[: cramjam.lz4.decompress_block_into(data, out, output_len=room)])


# How to decompress a chunk that fills at most so much room.
_CODECS: dict[int, Callable[[bytes, int], Any]] = {
    1: lambda data, _: cramjam.deflate.decompress(data),
    2: lambda data, _: cramjam.snappy.decompress_raw(data),
    4: _lz4,
    5: lambda data, _: cramjam.zstd.decompress(data),
}


class OrcTail:
    """TableCorrupt where the bytes are not those of an ORC file. Messages are the specification's, fields by number."""

    def __init__(self, source: Any) -> None:
        self.source, self.size = source, source.size()
        try:
            self._read()
        except (ValueError, IndexError, KeyError, cramjam.DecompressionError) as reason:
            raise TableCorrupt(f"the metadata of an ORC file cannot be read: {reason}") from reason

    def _read(self) -> None:
        length = self._bytes(self.size - 1, 1)[0]
        self.postscript = Message.parse(self._bytes(self.size - 1 - length, length))
        if self.postscript.text(8000) != "ORC":
            raise ValueError("no postscript")
        self._codec = self.postscript.integer(2)
        self._block = self.postscript.integer(3, 256 << 10)
        if not 0 < self._block <= _LARGEST_BLOCK or self._codec not in {0, *_CODECS}:
            raise ValueError(f"codec {self._codec} in blocks of {self._block} bytes")
        footer_length, metadata_length = self.postscript.integer(1), self.postscript.integer(5)
        self.footer_start = self.size - 1 - length - footer_length
        self.footer = self._message(self.footer_start, footer_length)
        self.metadata = self._message(self.footer_start - metadata_length, metadata_length)
        self.types = self.footer.messages(4)
        _check_types(self.types)
        self.stripes = self.footer.messages(3)
        self.stripe_footers = [
            self._message(sum(one.integer(number) for number in (1, 2, 3)), one.integer(4)) for one in self.stripes
        ]
        self.timestamps = {
            place for place, one in enumerate(self.types) if one.integer(1) in (Kind.TIMESTAMP, Kind.INSTANT)
        }

    def parts(self, stripe: int) -> Iterator[Part]:
        """The streams of a stripe in the order in which they lie."""
        offset = self.stripes[stripe].integer(1)
        for stream in self.stripe_footers[stripe].messages(1):
            kind, column, length = (stream.integer(number) for number in (1, 2, 3))
            yield Part(kind, column, offset, length)
            offset += length

    def values_in(self, column: int) -> int:
        """How many values that are not null the whole file has of a column, as far as it tells."""
        statistics = self.footer.messages(7)
        return statistics[column].integer(1) if column < len(statistics) else 0

    def row_bytes(self) -> int:
        """About how long a row is in memory: texts and bytes as the stripes tell, 8 for any other value."""
        columns = (column for stripe in self.metadata.messages(1) for column in stripe.messages(1))
        lengths = sum(_length(column, 4, 3) + _length(column, 8, 1) for column in columns)
        return 8 * len(self.types) + lengths // max(self.footer.integer(6), 1)

    def framed(self, data: bytes) -> bytes:
        """As it stands in a file of this codec, but not compressed."""
        if self._codec == 0:
            return data
        chunks = (data[place : place + self._block] for place in range(0, len(data), self._block))
        return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)

    def ending(self, metadata: bytes, footer: Message) -> bytes:
        """The end of a file like this one; `metadata` as it is to stand there."""
        data = self.framed(footer.encode())
        postscript = Message(list(self.postscript.fields))
        postscript.put(1, len(data))
        postscript.put(5, len(metadata))
        end = postscript.encode()
        return metadata + data + end + bytes([len(end)])

    def _message(self, start: int, length: int) -> Message:
        return Message.parse(self._plain(self._bytes(start, length)))

    def _bytes(self, start: int, length: int) -> bytes:
        if start < 0 or start + length > self.size:
            raise ValueError("a part lies outside the file")
        return bytes(self.source.read_at(length, start))

    def _plain(self, data: bytes) -> bytes:
        if self._codec == 0:
            return data
        decompress, found, place, size = _CODECS[self._codec], [], 0, 0
        while place < len(data):
            head = int.from_bytes(data[place : place + 3], "little")
            chunk = data[place + 3 : place + 3 + (head >> 1)]
            found.append(chunk if head & 1 else bytes(decompress(chunk, self._block)))
            size += len(found[-1])
            if size > _LARGEST_TAIL:
                raise ValueError("a message is too large")
            place += 3 + (head >> 1)
        return b"".join(found)


def _check_types(types: list[Message]) -> None:
    """ValueError for types that liborc or Arrow would not refuse but die of: they abort the process on a decimal out of
    range, and follow members without looking where they lead."""
    if not types or types[0].integer(1) != Kind.STRUCT:
        raise ValueError("the rows are of no structure")
    depths = [0] * len(types)
    for place, one in enumerate(types):
        kind, members = one.integer(1), one.integers(2)
        precision, scale = one.integer(5), one.integer(6)
        if kind == Kind.UNION or kind > Kind.INSTANT:
            raise ValueError(f"type {kind} is not known")
        if kind == Kind.DECIMAL and not (0 < precision <= _MOST_DIGITS and scale <= precision):
            raise ValueError(f"a decimal of {precision} digits, {scale} of them behind the point")
        names = sum(number == 3 for number, _, _ in one.fields)
        wanted = names if kind == Kind.STRUCT else _MEMBERS.get(kind, 0)
        if len(members) != wanted or any(not place < member < len(types) for member in members):
            raise ValueError(f"type {kind} has members that are none")
        for member in members:
            depths[member] = depths[place] + 1
        if depths[place] > _DEEPEST:
            raise ValueError("types are nested too deeply")


def stream_message(kind: int, column: int, length: int) -> Message:
    return Message([(1, 0, kind), (2, 0, column), (3, 0, length)])


def stripe_message(offset: int, index_length: int, data_length: int, footer_length: int, rows: int) -> Message:
    return Message([(1, 0, offset), (2, 0, index_length), (3, 0, data_length), (4, 0, footer_length), (5, 0, rows)])


def _length(column: Message, kind: int, place: int) -> int:
    """The sum that statistics of texts or of bytes have, a signed integer that is never below zero."""
    return sum(one.integer(place) >> 1 for one in column.messages(kind))
