"""Decompression of the blocks of an Avro container within limits: a few kilobytes can expand to a gigabyte."""

from __future__ import annotations

import bz2
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import cramjam

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_SYNC = 16
# Manifests compress to between a fifth and a twentieth. A file that compresses much better is not a manifest.
_LEAST_ROOM, _MOST_RATIO = 64 << 20, 64
# Data files compress as well as their rows repeat, so only a block is limited. Writers cut them at a few megabytes; one
# is larger only if a single row is.
LARGEST_BLOCK = 512 << 20
_MAGIC = b"Obj\x01"


class TooLarge(ValueError):
    """A file that decompresses to more bytes than the limit."""


class AvroBlocks:
    """The blocks of an Avro container.

    Iterating yields the number of records and the decompressed bytes of each block.

    `schema` is the text of the writer's schema. The blocks of manifests, which are given as bytes, may decompress to
    `room` more bytes in all; of a stream, which is read block by block, each block may decompress to `LARGEST_BLOCK`.
    Bytes that are not an Avro container raise ValueError or a similar error.
    """

    def __init__(self, data: bytes | BinaryIO) -> None:
        self._source = io.BytesIO(data) if isinstance(data, bytes) else data
        if self._take(len(_MAGIC)) != _MAGIC:
            raise ValueError("the file does not begin with the header of an Avro container")
        meta = self._meta()
        self.schema = meta["avro.schema"].decode()
        codec = meta.get("avro.codec", b"null").decode()
        if codec not in _CODECS:
            raise ValueError(f"codec {codec!r} is not known")
        self._unpack = _CODECS[codec]
        self._sync = self._take(_SYNC)
        self.room = max(_LEAST_ROOM, _MOST_RATIO * len(data)) if isinstance(data, bytes) else None

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        # A container has no count of its blocks: it ends where no further byte follows.
        while first := self._source.read(1):
            count, size = self._number(first), self._number()
            block = self._unpack(self._take(size), LARGEST_BLOCK if self.room is None else self.room)
            if self.room is not None:
                self.room -= len(block)
            if count < 0 or (self.room or 0) < 0:
                raise TooLarge("the file decompresses to more than a file of its size can contain")
            if self._take(_SYNC) != self._sync:
                raise ValueError("a block does not end with the sync marker of the file")
            yield count, block

    def _meta(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        while count := self._number():
            if count < 0:
                self._number()  # the size of the entries in bytes, for readers that skip them
            for _ in range(abs(count)):
                name = self._take(self._number()).decode()
                found[name] = self._take(self._number())
        return found

    def _number(self, first: bytes = b"") -> int:
        value = shift = 0
        while True:
            byte = (first or self._take(1))[0]
            first = b""
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")

    def _take(self, size: int) -> bytes:
        piece = self._source.read(size) if size >= 0 else b""
        if size < 0 or len(piece) < size:
            raise EOFError("the file ends early")
        return piece


def _inflated(data: bytes, room: int) -> bytes:
    # -15 means deflate without the header of zlib. One byte more than allowed shows that a block is too large,
    # without decompressing the rest of it.
    packed = zlib.decompressobj(-15)
    return _whole(packed.decompress(data, room + 1), room, is_all=packed.eof)


def _of_bzip2(data: bytes, room: int) -> bytes:
    packed = bz2.BZ2Decompressor()
    try:
        found = packed.decompress(data, room + 1)
    except OSError as reason:  # it is not the store that failed
        raise ValueError(f"a block cannot be decompressed: {reason}") from reason
    return _whole(found, room, is_all=packed.eof)


def _of_xz(data: bytes, room: int) -> bytes:
    packed = lzma.LZMADecompressor()
    return _whole(packed.decompress(data, room + 1), room, is_all=packed.eof)


def _of_zstd(data: bytes, room: int) -> bytes:
    found = b""
    # A block may consist of several frames.
    while data:
        packed = zstd.ZstdDecompressor()
        found += _whole(packed.decompress(data, room - len(found) + 1), room - len(found), is_all=packed.eof)
        data = packed.unused_data
    return found


def _of_snappy(data: bytes, room: int) -> bytes:
    """Decompress a snappy block, which ends with a checksum of the decompressed bytes."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    # The length is checked before the block is decompressed, since snappy allocates that length.
    if size > room:
        raise TooLarge(f"a block decompresses to {size} bytes")
    found = bytes(cramjam.snappy.decompress_raw(data[:-4]))
    if zlib.crc32(found) != int.from_bytes(data[-4:], "big"):
        raise ValueError("a block does not match its checksum")
    return found


def _whole(found: bytes, room: int, *, is_all: bool) -> bytes:
    if len(found) > room:
        raise TooLarge("the file decompresses to more than a file of its size can contain")
    if not is_all:
        raise EOFError("a block ends early")
    return found


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, _room: data,
    "deflate": _inflated,
    "bzip2": _of_bzip2,
    "xz": _of_xz,
    "zstandard": _of_zstd,
    "snappy": _of_snappy,
}
