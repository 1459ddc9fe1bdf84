"""ORC's own metadata, and files that say otherwise: the same bytes under another tail.

Arrow reads ORC timestamps as nanoseconds, which end in 1677 and 2262. So a file is shown to it twice: once with its
timestamps declared as integers, which gives their seconds, once with all seconds zero, which gives their nanoseconds.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import cramjam

from penstock.errors import TableCorrupt
from penstock.table.files.protobuf import Message

EPOCH_2015 = 1_420_070_400
_LONG, _TIMESTAMP, _TIMESTAMP_INSTANT = 4, 9, 18
_DATA, _SECONDARY = 1, 5
_INDEX_STREAMS = (6, 7, 8)
_DIRECT_V2 = 2
_ZERO_RUN = 512, b"\xc1\xff\x00\x00"  # a delta run of 512 zeros
_ZERO_RUN_V1 = 130, b"\x7f\x00\x00"


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
    """What stands behind the stripes of an ORC file."""

    def __init__(self, source: Any) -> None:
        self._source, self._size = source, source.size()
        try:
            self._read()
        except (ValueError, IndexError, KeyError, cramjam.DecompressionError) as reason:
            raise TableCorrupt(f"the metadata of an ORC file cannot be read: {reason}") from reason

    def _read(self) -> None:
        length = self._bytes(self._size - 1, 1)[0]
        self._postscript = Message.parse(self._bytes(self._size - 1 - length, length))
        if self._postscript.text(8000) != "ORC":
            raise ValueError("no postscript")
        self._codec = self._postscript.integer(2)
        self._block = self._postscript.integer(3, 256 << 10)
        footer_length = self._postscript.integer(1)
        self._footer_start = self._size - 1 - length - footer_length
        self._footer = self._message(self._footer_start, footer_length)
        self._stripes = self._footer.messages(3)
        self._types = self._footer.messages(4)
        self._stripe_footers = [self._message(_footer_of(one), one.integer(4)) for one in self._stripes]
        self._timestamps = {
            place for place, one in enumerate(self._types) if one.integer(1) in (_TIMESTAMP, _TIMESTAMP_INSTANT)
        }

    @property
    def stripes(self) -> list[tuple[int, str]]:
        """How many rows each stripe has, and the time zone of its writer; no name means UTC."""
        pairs = zip(self._stripes, self._stripe_footers, strict=True)
        return [(stripe.integer(5), footer.text(3)) for stripe, footer in pairs]

    @property
    def from_java(self) -> bool:
        return self._footer.integer(9) == 0

    def with_seconds(self) -> SplicedFile:
        """The file with its timestamps as integers: seconds since 2015."""
        footer = Message(list(self._footer.fields))
        footer.put_messages(4, [self._as_integer(place, one) for place, one in enumerate(self._types)])
        spliced = SplicedFile(self._source)
        spliced.add(0, self._footer_start)
        self._end(spliced, footer, self._postscript.integer(5))
        return spliced

    def _as_integer(self, place: int, type_: Message) -> Message:
        if place not in self._timestamps:
            return type_
        changed = Message(list(type_.fields))
        changed.put(1, _LONG)
        return changed

    def with_nanoseconds(self) -> SplicedFile:
        """The file with all its timestamps in the first second of 2015."""
        spliced = SplicedFile(self._source)
        spliced.add(0, 3)
        counts = [one.integer(1) for one in self._footer.messages(7)]
        pairs = zip(self._stripes, self._stripe_footers, strict=True)
        stripes = [self._without_seconds(spliced, stripe, footer, counts) for stripe, footer in pairs]
        footer = Message(list(self._footer.fields))
        footer.put_messages(3, stripes)
        self._end(spliced, footer, 0)
        return spliced

    def _without_seconds(self, spliced: SplicedFile, stripe: Message, footer: Message, counts: list[int]) -> Message:
        start, place = spliced.size, stripe.integer(1)
        encodings = [one.integer(1) for one in footer.messages(2)]
        streams = []
        for stream in footer.messages(1):
            kind, column, length = (stream.integer(number) for number in (1, 2, 3))
            if kind == _DATA and column in self._timestamps:
                count = max(stripe.integer(5), counts[column] if column < len(counts) else 0)
                zeros = self._framed(_zeros(count, encodings[column] == _DIRECT_V2))
                spliced.add_bytes(zeros)
                streams.append(_stream(kind, column, len(zeros)))
            elif kind not in _INDEX_STREAMS:
                spliced.add(place, length)
                streams.append(stream)
            place += length
        data_length = spliced.size - start
        changed = Message([one for one in footer.fields if one[0] != 3])
        changed.put_messages(1, streams)
        changed.fields.append((3, 2, b"GMT"))
        data = self._framed(changed.encode())
        spliced.add_bytes(data)
        return _stripe(start, data_length, len(data), stripe.integer(5))

    def _end(self, spliced: SplicedFile, footer: Message, metadata_length: int) -> None:
        data = self._framed(footer.encode())
        postscript = Message(list(self._postscript.fields))
        postscript.put(1, len(data))
        postscript.put(5, metadata_length)
        end = postscript.encode()
        spliced.add_bytes(data + end + bytes([len(end)]))

    def _message(self, start: int, length: int) -> Message:
        return Message.parse(self._plain(self._bytes(start, length)))

    def _bytes(self, start: int, length: int) -> bytes:
        if start < 0 or start + length > self._size:
            raise ValueError("a part lies outside the file")
        return bytes(self._source.read_at(length, start))

    def _plain(self, data: bytes) -> bytes:
        if self._codec == 0:
            return data
        decompress, parts, place = _CODECS[self._codec], [], 0
        while place < len(data):
            head = int.from_bytes(data[place : place + 3], "little")
            chunk = data[place + 3 : place + 3 + (head >> 1)]
            parts.append(chunk if head & 1 else bytes(decompress(chunk, self._block)))
            place += 3 + (head >> 1)
        return b"".join(parts)

    def _framed(self, data: bytes) -> bytes:
        """As it stands in a file with a codec, but not compressed."""
        if self._codec == 0:
            return data
        chunks = (data[place : place + self._block] for place in range(0, len(data), self._block))
        return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)


def _footer_of(stripe: Message) -> int:
    return sum(stripe.integer(number) for number in (1, 2, 3))


def _zeros(count: int, second_version: bool) -> bytes:
    run, data = _ZERO_RUN if second_version else _ZERO_RUN_V1
    return data * -(-count // run)


def _stream(kind: int, column: int, length: int) -> Message:
    return Message([(1, 0, kind), (2, 0, column), (3, 0, length)])


def _stripe(offset: int, data_length: int, footer_length: int, rows: int) -> Message:
    return Message([(1, 0, offset), (2, 0, 0), (3, 0, data_length), (4, 0, footer_length), (5, 0, rows)])


class SplicedFile(io.RawIOBase):
    """A file made of parts of another one and of bytes between them. Reads from both, and holds only the bytes."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self._source = source
        self._starts: list[int] = []
        self._parts: list[int | bytes] = []  # a place in the source, or what stands there
        self.size = 0
        self._place = 0

    def add(self, offset: int, length: int) -> None:
        self._append(offset, length)

    def add_bytes(self, data: bytes) -> None:
        self._append(data, len(data))

    def _append(self, part: int | bytes, length: int) -> None:
        if length:
            self._starts.append(self.size)
            self._parts.append(part)
            self.size += length

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + (0, self._place, self.size)[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self._place + size)
        found = []
        while self._place < end:
            number = bisect_right(self._starts, self._place) - 1
            start, part = self._starts[number], self._parts[number]
            stop = min(end, self._starts[number + 1] if number + 1 < len(self._starts) else self.size)
            skip, length = self._place - start, stop - self._place
            found.append(
                part[skip : skip + length] if isinstance(part, bytes) else self._source.read_at(length, part + skip)
            )
            self._place = stop
        return b"".join(found)
