"""The metadata after the stripes of an ORC file, as in ORC's specification: postscript, footer and stripe footers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import cramjam

from penstock.errors import TableCorrupt
from penstock.table.orc_metadata.protobuf import Message

HEADER = b"ORC"


class OrcType(IntEnum):
    """The ORC types, by their numbers in the footer."""

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
_MEMBERS: dict[int, int] = {OrcType.LIST: 1, OrcType.MAP: 2}
_LARGEST_BLOCK = 1 << 23  # the largest length that the three-byte header of a chunk can contain
_LARGEST_TAIL = 256 << 20  # bytes of a decompressed message


class Stream(IntEnum):
    """The kinds of streams, by their numbers in a stripe footer."""

    DATA = 1
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8


INDEX_STREAMS = (Stream.ROW_INDEX, Stream.BLOOM_FILTER, Stream.BLOOM_FILTER_UTF8)


@dataclass(frozen=True, slots=True)
class Part:
    """A stream of a stripe, and its place in the file."""

    kind: int
    column: int
    offset: int
    length: int


def _lz4(data: bytes, room: int) -> bytes:
    # LZ4 blocks do not record their decompressed size.
    out = bytearray(room)
    return bytes(out[: cramjam.lz4.decompress_block_into(data, out, output_len=room)])


# Each function decompresses a chunk; the second argument is the largest decompressed size.
_CODECS: dict[int, Callable[[bytes, int], Any]] = {
    1: lambda data, _: cramjam.deflate.decompress(data),
    2: lambda data, _: cramjam.snappy.decompress_raw(data),
    4: _lz4,
    5: lambda data, _: cramjam.zstd.decompress(data),
}


class OrcTail:
    """The metadata of an ORC file. It consists of the messages of the specification, with fields by number.

    TableCorrupt when the bytes are not an ORC file, or a message has more than `largest` bytes.
    """

    def __init__(self, source: Any, largest: int = _LARGEST_TAIL) -> None:
        self.source, self.size, self._largest = source, source.size(), largest
        try:
            self._read()
        except (ValueError, IndexError, KeyError, cramjam.DecompressionError) as reason:
            raise TableCorrupt(f"the metadata of an ORC file cannot be read: {reason}") from reason

    def _read(self) -> None:
        # The file ends with the postscript and its length in one byte. The postscript is never compressed. Its
        # fields: 1 is the length of the footer, 2 the codec, 3 the block size, 5 the length of the metadata, 8000 the
        # magic text.
        length = self._bytes(self.size - 1, 1)[0]
        self.postscript = Message.parse(self._bytes(self.size - 1 - length, length))
        if self.postscript.text(8000) != "ORC":
            raise ValueError("the file has no postscript")
        self._codec = self.postscript.integer(2)
        self._block = self.postscript.integer(3, 256 << 10)
        if not 0 < self._block <= _LARGEST_BLOCK or self._codec not in {0, *_CODECS}:
            raise ValueError(f"codec {self._codec} in blocks of {self._block} bytes")
        footer_length, metadata_length = self.postscript.integer(1), self.postscript.integer(5)
        self.footer_start = self.size - 1 - length - footer_length
        self.footer = self.message(self.footer_start, footer_length)
        self.metadata = self.message(self.footer_start - metadata_length, metadata_length)
        self.types = self.footer.messages(4)
        _check_types(self.types)
        self.stripes = self.footer.messages(3)
        self.stripe_footers = [
            # A stripe consists of indexes, data and footer; 1 is its offset, and 2 to 4 are their lengths.
            self.message(sum(stripe.integer(number) for number in (1, 2, 3)), stripe.integer(4))
            for stripe in self.stripes
        ]
        self.timestamps = {
            place for place, type_ in enumerate(self.types) if type_.integer(1) in (OrcType.TIMESTAMP, OrcType.INSTANT)
        }

    def parts(self, stripe: int) -> Iterator[Part]:
        """Yield the streams of a stripe in file order."""
        offset = self.stripes[stripe].integer(1)
        for stream in self.stripe_footers[stripe].messages(1):
            kind, column, length = (stream.integer(number) for number in (1, 2, 3))
            yield Part(kind, column, offset, length)
            offset += length

    def value_counts(self) -> list[int]:
        """Return how many non-null values each column has in the whole file. Without statistics the list is empty."""
        return [column.integer(1) for column in self.footer.messages(7)]

    def forget(self) -> None:
        """Give up the file's content and its statistics, which may be large. Types and codec stay."""
        self.source, self.metadata = None, Message()
        self.footer.put_messages(7, [])

    def row_bytes(self) -> int:
        """Return the approximate size of a row in memory.

        Texts and bytes count by the stripe statistics, other values 8 bytes each.
        """
        columns = (column for stripe in self.metadata.messages(1) for column in stripe.messages(1))
        lengths = sum(_length(column, 4, 3) + _length(column, 8, 1) for column in columns)
        return 8 * len(self.types) + lengths // max(self.footer.integer(6), 1)

    def framed(self, data: bytes) -> bytes:
        """Return `data` in the framing of this file's codec, but not compressed."""
        if self._codec == 0:
            return data
        chunks = (data[place : place + self._block] for place in range(0, len(data), self._block))
        # The header of a chunk is its length and a bit that says that it is not compressed.
        return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)

    def ending(self, metadata: bytes, footer: Message) -> bytes:
        """Return the end of a file like this one; `metadata` must already be framed."""
        data = self.framed(footer.encode())
        postscript = Message(list(self.postscript.fields))
        postscript.put(1, len(data))
        postscript.put(5, len(metadata))
        end = postscript.encode()
        return metadata + data + end + bytes([len(end)])

    def message(self, start: int, length: int) -> Message:
        """Return the message in these bytes of the file."""
        return Message.parse(self._plain(self._bytes(start, length)))

    def _bytes(self, start: int, length: int) -> bytes:
        if start < 0 or start + length > self.size:
            raise ValueError("a part is outside of the file")
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
            # A few bytes can decompress to many: the limit is checked after each chunk, which has at most one block.
            if size > self._largest:
                raise ValueError("a message is too large")
            place += 3 + (head >> 1)
        return b"".join(found)


def _check_types(types: list[Message]) -> None:
    """Raise ValueError for types that make liborc or Arrow abort the process instead of raising an error.

    They abort on a decimal with a precision out of range, and they follow type members without checking that the
    members exist.
    """
    if not types or types[0].integer(1) != OrcType.STRUCT:
        raise ValueError("the root type is not a struct")
    depths = [0] * len(types)
    for place, node in enumerate(types):
        kind, members = node.integer(1), node.integers(2)
        precision, scale = node.integer(5), node.integer(6)
        if kind == OrcType.UNION or kind > OrcType.INSTANT:
            raise ValueError(f"type {kind} is not known")
        if kind == OrcType.DECIMAL and not (0 < precision <= _MOST_DIGITS and scale <= precision):
            raise ValueError(f"a decimal of {precision} digits, {scale} of them after the point")
        names = sum(number == 3 for number, _, _ in node.fields)
        wanted = names if kind == OrcType.STRUCT else _MEMBERS.get(kind, 0)
        # Types are numbered depth first, so a member has a higher number than its parent. This also excludes cycles.
        if len(members) != wanted or any(not place < member < len(types) for member in members):
            raise ValueError(f"type {kind} has members that do not exist")
        for member in members:
            depths[member] = depths[place] + 1
        if depths[place] > _DEEPEST:
            raise ValueError("types are nested too deeply")


def stream_message(kind: int, column: int, length: int) -> Message:
    """Return the description of a stream in a stripe footer."""
    return Message([(1, 0, kind), (2, 0, column), (3, 0, length)])


def stripe_message(offset: int, index_length: int, data_length: int, footer_length: int, rows: int) -> Message:
    """Return the description of a stripe in the footer."""
    return Message([(1, 0, offset), (2, 0, index_length), (3, 0, data_length), (4, 0, footer_length), (5, 0, rows)])


def _length(column: Message, kind: int, place: int) -> int:
    """Return the total length of a column's texts or bytes from its statistics: a zigzag integer, never negative."""
    return sum(message.integer(place) >> 1 for message in column.messages(kind))
