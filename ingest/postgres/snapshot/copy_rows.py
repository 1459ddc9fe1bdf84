"""Rows of COPY in the binary format: each row is a lane, and a column is located in all lanes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.database.buffers import at_every_byte, with_spare_bytes
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.values.cells import Cells

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bytes, Int64s

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_TRAILER = b"\xff\xff"


def located(messages: Sequence[bytes]) -> tuple[Bytes, Int64s, Int64s]:
    """Return messages as one buffer with spare bytes, and the start and end of each."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    end = np.cumsum(lengths)
    return with_spare_bytes(b"".join(messages)), end - lengths, end


def rows_of(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages that are rows, without the file header and trailer."""
    rows = list(messages)
    if rows and rows[0].startswith(_SIGNATURE):
        header = 19 + int.from_bytes(rows[0][15:19], "big")
        rows[0] = rows[0][header:]  # newer servers send the header alone, older ones with the first row
    if rows and rows[-1] == _TRAILER:
        rows.pop()
    return [row for row in rows if row]


def cells_of(messages: Sequence[bytes], columns: int) -> Iterator[Cells]:
    """Yield the cells column by column; UnexpectedMessage if a row does not have these columns."""
    data, start, end = located(messages)
    sizes = at_every_byte(data, ">i4")
    if len(start) and (at_every_byte(data, ">i2")[start] != columns).any():
        raise UnexpectedMessage("a row of COPY has another number of columns than were selected", wanted=columns)
    at = start + 2
    for _ in range(columns):
        length = sizes[at].astype(np.int64)
        null = length < 0
        length = np.where(null, 0, length)
        yield Cells(data, at + 4, length, null)
        at = at + 4 + length
    if (at != end).any():
        raise UnexpectedMessage("a row of COPY is longer than its last column")
