"""Recorded binlog files, read from disk as a server sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import SourceError
from penstock.ingest.database.buffers import SPARE
from penstock.ingest.mysql.binlog.segment import (
    CHECKSUM,
    FORMAT_DESCRIPTION,
    HEADER,
    MARIADB_START_ENCRYPTION,
    ROTATE,
    FormatDescription,
    Segment,
    parse_format,
    read_headers,
    refuse_unknown,
    verify_checksums,
)
from penstock.ingest.mysql.position import FIRST_EVENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_MAGIC = b"\xfebin"
_ENCRYPTED = "the binlog file is encrypted: read it through its server"
BLOCK_BYTES = 16 << 20


def file_segments(
    path: Path,
    start: int = FIRST_EVENT,
    until: int | None = None,
    *,
    verify: bool = True,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Segment]:
    """Yield the events of one file from `start` to `until`.

    An incomplete event at the end of the file is omitted: the server may still be writing it.
    """
    with path.open("rb") as file:
        if (magic := file.read(len(_MAGIC))) != _MAGIC:
            is_encrypted = magic == b"\xfdbin"
            raise SourceError(_ENCRYPTED if is_encrypted else "this is not a binlog file", file=path)
        format_ = _format(file, path)
        file.seek(start)
        pos = start
        while until is None or pos < until:
            segment = _next_segment(file, path.name, pos, block_bytes, format_)
            if segment is None:
                return
            pos = segment.after
            if until is not None:
                segment = segment.chosen(segment.pos < until)
            # The checksum of the format event does not cover the flag of a file in use.
            segment = segment.chosen((segment.kind != FORMAT_DESCRIPTION) & (segment.kind != ROTATE))
            if verify and format_.has_checksum:
                verify_checksums(segment)
            yield segment


def _format(file: BinaryIO, path: Path) -> FormatDescription:
    """Return the format of the file from its first event, which applies to all events of the file."""
    header = file.read(HEADER)
    if len(header) < HEADER or header[4] != FORMAT_DESCRIPTION:
        raise SourceError("the binlog file does not begin with a format description event", file=path)
    try:
        format_ = parse_format(file.read(max(int.from_bytes(header[9:13], "little") - HEADER, 0)))
    except SourceError as error:
        error.facts["file"] = path
        raise
    following = file.read(HEADER)
    if len(following) == HEADER and following[4] == MARIADB_START_ENCRYPTION:
        raise SourceError(_ENCRYPTED, file=path)
    return format_


def _next_segment(file: BinaryIO, name: str, pos: int, block_bytes: int, format_: FormatDescription) -> Segment | None:
    file.seek(pos)
    raw = bytearray(file.read(block_bytes))
    if len(raw) >= HEADER and (first := int.from_bytes(raw[9:13], "little")) > len(raw):
        # A single event larger than a block.
        raw += file.read(first - len(raw))
    starts, at = [], 0
    while at + HEADER <= len(raw):
        size = int.from_bytes(raw[at + 9 : at + 13], "little")
        if size < HEADER:
            raise SourceError("a binlog event is shorter than its header", file=name, pos=pos + at)
        if at + size > len(raw):
            break
        starts.append(at)
        at += size
    if not starts:
        return None
    # Numbers are read at any byte, and the read of the last one may extend this far beyond the last event.
    raw += bytes(SPARE)
    start = np.array(starts, np.int64)
    headers = read_headers(raw, start)
    refuse_unknown(name, start + pos, headers.kind, headers.ignorable)
    end = start + headers.size - (CHECKSUM if format_.has_checksum else 0)
    return Segment(name, raw, start, end, start + pos, headers.kind, headers.seconds, format_.is_mariadb, pos + at)
