"""The bytes of the columns of a row group, read by few requests.

A store behind a network answers a request after milliseconds, so columns near each other are one request. On a local
disk a request costs microseconds and a copy, so only the headers of pages are read, and then the wanted pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.table.files.parquet.page_header import PageHeader, page_header

# Columns with fewer bytes between them are read from the store together.
_GAP = 1 << 20
# Headers are shorter, unless they contain long texts as the least and the greatest value.
_HEADER = 192


class ColumnBytes(Protocol):
    """The bytes of one column. Places are counted from its start."""

    @property
    def size(self) -> int: ...

    def header(self, place: int) -> PageHeader:
        """Return the header of the page that begins at `place`."""

    def part(self, begin: int, end: int) -> bytes | memoryview:
        """Return the bytes from one place to another."""


def column_bytes(source: Any, chunks: Sequence[Any]) -> Iterator[tuple[Any, ColumnBytes]]:
    """Yield each column, which is the metadata of its chunk, with its bytes in `source`."""
    if isinstance(source, pa.OSFile):
        for chunk in chunks:
            yield chunk, _OnDisk(source, _start(chunk), chunk.total_compressed_size)
        return
    near: list[Any] = []
    for chunk in sorted(chunks, key=_start):
        if near and _start(chunk) - _start(near[-1]) - near[-1].total_compressed_size > _GAP:
            yield from _read_together(source, near)
            near = []
        near.append(chunk)
    yield from _read_together(source, near)


@dataclass(frozen=True, slots=True)
class _InMemory:
    """A column whose bytes are in memory."""

    content: memoryview

    @property
    def size(self) -> int:
        return len(self.content)

    def header(self, place: int) -> PageHeader:
        return page_header(self.content, place)

    def part(self, begin: int, end: int) -> memoryview:
        return self.content[begin:end]


@dataclass(frozen=True, slots=True)
class _OnDisk:
    """A column in a file of a local disk, which begins at `start`."""

    source: Any
    start: int
    size: int

    def header(self, place: int) -> PageHeader:
        try:
            found = page_header(self.part(place, min(place + _HEADER, self.size)), 0)
        except IndexError:  # the header is longer, or the bytes are not a header
            found = page_header(self.part(place, self.size), 0)
        return found._replace(end=place + found.end)

    def part(self, begin: int, end: int) -> bytes:
        return bytes(self.source.read_at(end - begin, self.start + begin)) if begin < end else b""


def _start(chunk: Any) -> int:
    # Without a dictionary the offset is None, or 0 in files of old writers.
    return int(chunk.dictionary_page_offset or chunk.data_page_offset)


def _read_together(source: Any, chunks: Sequence[Any]) -> Iterator[tuple[Any, ColumnBytes]]:
    first = _start(chunks[0])
    content = memoryview(source.read_at(_start(chunks[-1]) + chunks[-1].total_compressed_size - first, first))
    for chunk in chunks:
        place = _start(chunk) - first
        yield chunk, _InMemory(content[place : place + chunk.total_compressed_size])
