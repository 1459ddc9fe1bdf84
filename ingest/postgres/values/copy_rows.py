"""Rows of COPY in the binary format: the messages that contain them, and their cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.byte_buffers import at_every_byte, has_any
from penstock.ingest.database.buffers import repeated
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.values.windows import RowCells, Shape

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.database.cells import Cells

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_TRAILER = b"\xff\xff"


def rows_of(messages: Received) -> Received:
    """Return the messages that are rows, without the file header and trailer."""
    if not len(messages):
        return messages
    start, data = messages.start.copy(), messages.data
    if data[start[0] : start[0] + len(_SIGNATURE)].tobytes() == _SIGNATURE:
        # The signature has 11 bytes. Flags and the length of an extension follow, four bytes each.
        header = 19 + int.from_bytes(data[start[0] + 15 : start[0] + 19].tobytes(), "big")
        # Newer servers send the header alone, older ones with the first row.
        start[0] += header
    keep = start < messages.end
    # A row has two bytes only if it has no columns, and then they are zeros.
    if keep[-1] and messages.end[-1] - start[-1] == len(_TRAILER):
        keep[-1] = data[start[-1] : messages.end[-1]].tobytes() != _TRAILER
    return Received(data, start[keep], messages.end[keep])


def cells_of(rows: Received, shapes: Sequence[Shape]) -> Iterator[Cells]:
    """Yield the cells column by column; UnexpectedMessage if a row does not have these columns."""
    if len(rows) and (at_every_byte(rows.data, ">i2")[rows.start] != len(shapes)).any():
        raise UnexpectedMessage("a row of COPY has another number of columns than were selected", wanted=len(shapes))
    # After the number of columns.
    cells = _CopyCells(rows.data, rows.start + 2, rows.end)
    yield from cells.columns(shapes)
    if (cells.at != rows.end).any():
        raise UnexpectedMessage("a row of COPY is longer than its last column")


class _CopyCells(RowCells):
    """Cells that begin with their length, which is negative for a null."""

    header = 4

    def all_have(self, headers: Bytes, width: int) -> bool:
        # A comparison with the bytes of the number converts no header.
        return not has_any(headers.view("<u4")[:, 0] != int.from_bytes(width.to_bytes(4), "little"))

    def read(self, headers: Bytes) -> tuple[Int64s, Bools, Int64s | int]:
        length = headers.view(">i4")[:, 0].astype(np.int64)
        null = length < 0
        if not has_any(null):
            return length, repeated(value=False, count=len(length)), self.header
        return np.maximum(length, 0, out=length), null, self.header
