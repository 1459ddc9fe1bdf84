"""The cells of a column as positions in a buffer, and how they are found in rows of COPY."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.ingest.database.buffers import at_every_byte, slices
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.received import Received

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bools, Bytes, Int64s


# Values that a table cannot store become null and are counted by these names.
INFINITY, NOT_A_NUMBER, TOO_LARGE, OUT_OF_DAY = "infinity", "not-a-number", "number-too-large", "time-out-of-day"
ARRAY_SHAPE = "array-of-several-dimensions"


@dataclass(frozen=True, slots=True)
class Cells:
    """The start, length and nullness of the cells of a column. The buffer ends with spare bytes."""

    data: Bytes
    start: Int64s
    length: Int64s
    null: Bools

    def __len__(self) -> int:
        return len(self.start)

    def chosen(self, index: Int64s | Bools) -> Cells:
        return Cells(self.data, self.start[index], self.length[index], self.null[index])

    def shifted(self, first: int) -> Cells:
        """Return the cells without their first bytes."""
        return Cells(self.data, self.start + first, np.maximum(self.length - first, 0), self.null)

    def safe(self) -> Cells:
        """Return the cells with the position of nulls at the start of the buffer, so that they can be read."""
        if not self.null.any():
            return self
        return Cells(self.data, np.where(self.null, 0, self.start), np.where(self.null, 0, self.length), self.null)


def nulled(null: Bools, odd: Bools, reason: str, oddities: Counter[str]) -> Bools:
    """Return the nulls with the odd values added, which are counted."""
    odd = odd & ~null
    if not odd.any():
        return null
    oddities[reason] += int(odd.sum())
    return null | odd


def valid_texts(cells: Cells) -> pa.Array:
    """Return the cells as texts; ValueError if one is not UTF-8."""
    texts = slices(pa.string(), cells.data, cells.start, cells.length, cells.null)
    texts.validate(full=True)
    return texts


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


def cells_of(rows: Received, columns: int) -> Iterator[Cells]:
    """Yield the cells column by column; UnexpectedMessage if a row does not have these columns."""
    data, start, end = rows.data, rows.start, rows.end
    sizes = at_every_byte(data, ">i4")
    if len(start) and (at_every_byte(data, ">i2")[start] != columns).any():
        raise UnexpectedMessage("a row of COPY has another number of columns than were selected", wanted=columns)
    # After the number of columns. One step reads a column of all rows.
    at = start + 2
    for _ in range(columns):
        # A row that has ended is followed by another or by spare bytes, so this reads no other memory.
        length = sizes[at].astype(np.int64)
        null = length < 0
        np.maximum(length, 0, out=length)
        first = at + 4
        at = first + length
        # A cell beyond its row would be read from other memory.
        if (at > end).any():
            raise UnexpectedMessage("a row of COPY ends before its last column")
        yield Cells(data, first, length, null)
    if (at != end).any():
        raise UnexpectedMessage("a row of COPY is longer than its last column")
