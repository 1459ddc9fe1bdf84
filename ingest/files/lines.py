"""Reading of the lines of a file, plain or compressed, from any byte on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.errors import PositionLost, SourceError, StoreError
from penstock.formats.change import Int64s, Messages
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.storage.base import Storage

Codec: TypeAlias = Literal["gzip", "zstd", "bz2"]
_COMPRESSION: dict[str, Codec] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2"}
CHUNK_BYTES = 8 << 20
LONGEST_LINE = 256 << 20
# Blank lines begin with a byte up to this one: a blank, or the end of the line.
_SPACE, _RETURN = 0x20, 0x0D


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source's folder. `size` is its size when its batch was planned; it must not change afterwards."""

    store: Storage
    folder: str
    name: str
    size: int

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def codec(self) -> Codec | None:
        """Return the compression that the name declares, None for a plain file."""
        return compression_of(self.name)


def read_lines(file: SourceFile, begin: int, end: int, *, chunk: int = CHUNK_BYTES) -> Iterator[FetchedMessages]:
    """Yield the non-empty lines that begin in [begin, end); the offset of a line is the position of its first byte.

    Offsets count uncompressed bytes; a compressed file is read as a whole. Holds one chunk and the longest line in
    memory.
    """
    _check_unchanged(file)
    try:
        with _stream(file, begin) as stream:
            # One byte earlier: a line that begins exactly at `begin` belongs to this range, the end of an earlier line
            # does not.
            position, head = _after_newline(stream, begin - 1) if begin else (begin, b"")
            # `end` is a size in the store, while positions in a compressed file count uncompressed bytes.
            yield from _lines_up_to(stream, file, position, head, None if file.codec else end, chunk)
    except OSError as error:
        passing = isinstance(error, StoreError) and error.retryable
        raise SourceError(
            f"a source file cannot be read: {error}",
            file=file.path,
            retryable=passing,
            hint="check that the file exists and may be read; the next run reads it again",
        ) from error


def _lines_up_to(
    stream: pa.NativeFile, file: SourceFile, position: int, head: bytes, stop: int | None, chunk: int
) -> Iterator[FetchedMessages]:
    """Yield the lines that begin before `stop`. The first of them begins at `position`, with the bytes `head`."""
    unended = b""
    while stop is None or position < stop:
        block, head = head + stream.read(chunk), b""
        # The last part is an incomplete line until the next block arrives. At the end of the file it is a line without
        # newline.
        lines = block.split(b"\n")
        lines[0] = unended + lines[0]
        unended = lines.pop() if block else b""
        if len(unended) > LONGEST_LINE:
            raise SourceError(
                f"a line of a source file is longer than {LONGEST_LINE} bytes",
                file=file.path,
                offset=position,
                hint="write one message per line, each ended by a line feed",
            )
        fetched, position = _lines(file.name, block, lines, position, stop)
        if fetched is not None:
            yield fetched
        if not block:
            return


def _lines(
    name: str, block: bytes, lines: list[bytes], position: int, stop: int | None
) -> tuple[FetchedMessages | None, int]:
    # Positions include the newline that `split` has removed.
    sizes = np.fromiter(map(len, lines), np.int64, len(lines))
    ends = np.cumsum(sizes + 1) + position
    begins = np.concatenate(([position], ends[:-1])).astype(np.int64) if lines else ends
    position = int(ends[-1]) if lines else position
    # The lines that begin before `stop`. A line that begins before it and ends after it belongs to this range as
    # well.
    count = len(lines) if stop is None else int(np.searchsorted(begins, stop, side="left"))
    values, kept = _without_blank(block, lines[:count], sizes[:count])
    if not values:
        return None, position
    return FetchedMessages(name, 0, Messages(values, begins[kept]), sum(map(len, values))), position


def _without_blank(block: bytes, lines: list[bytes], sizes: Int64s) -> tuple[list[bytes], Int64s]:
    """Return the lines that are not blank, without carriage returns at their ends, and their numbers.

    All but the first are in the block. Python looks only at lines that may need it.
    """
    kept = np.arange(len(lines))
    if not lines:
        return [], kept
    # The beginnings of all lines but the first, which may have begun in an earlier block.
    starts = np.cumsum(sizes[1:] + 1) - sizes[1:] + block.find(b"\n")
    ends = np.maximum(starts + sizes[1:] - 1, 0)
    data = np.frombuffer(block, np.uint8) if block else np.zeros(1, np.uint8)
    last = len(data) - 1
    blank = [0, *(np.flatnonzero(data[np.minimum(starts, last)] <= _SPACE) + 1).tolist()]
    for number in [0, *(np.flatnonzero(data[np.minimum(ends, last)] == _RETURN) + 1).tolist()]:
        lines[number] = lines[number].rstrip(b"\r")
    blank = [number for number in blank if not lines[number].strip()]
    if blank:
        kept = np.delete(kept, blank)
        lines = [lines[number] for number in kept.tolist()]
    return lines, kept


def _after_newline(stream: pa.NativeFile, position: int) -> tuple[int, bytes]:
    """Return the position of the first line after `position`, and the bytes of it that were read already."""
    while block := stream.read(64 << 10):
        found = block.find(b"\n")
        if found >= 0:
            return position + found + 1, block[found + 1 :]
        position += len(block)
    return position, b""


def _stream(file: SourceFile, begin: int) -> pa.NativeFile:
    stream = file.store.open_input(file.path)
    if file.codec is not None:
        # The decompressor asks for 64 KiB at a time, which would be a request each on an object store.
        return pa.CompressedInputStream(pa.BufferedInputStream(stream, CHUNK_BYTES), file.codec)
    stream.seek(max(0, begin - 1))
    return stream


def _check_unchanged(file: SourceFile) -> None:
    try:
        now = file.store.size(file.path)
    except FileNotFoundError:
        now = None
    if now != file.size:
        raise PositionLost(
            "a source file was deleted or changed after its batch was planned",
            file=file.path,
            size_planned=file.size,
            size_now="the file does not exist" if now is None else now,
            hint="write files elsewhere and move them into the folder when they are complete; keep them until they"
            " are committed",
        )


def compression_of(name: str) -> Codec | None:
    return next((codec for suffix, codec in _COMPRESSION.items() if name.endswith(suffix)), None)
