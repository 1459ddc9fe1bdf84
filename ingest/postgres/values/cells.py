"""The cells of a column as positions in a buffer, and how they are found in rows of COPY."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.ingest.database.buffers import at_every_byte, slices, with_spare_bytes
from penstock.ingest.postgres.errors import UnexpectedMessage

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


def located(messages: Sequence[bytes]) -> tuple[Bytes, Int64s, Int64s]:
    """Return messages as one buffer with spare bytes, and the start and end of each."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    end = np.cumsum(lengths)
    return with_spare_bytes(b"".join(messages)), end - lengths, end


def rows_of(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages that are rows, without the file header and trailer."""
    rows = list(messages)
    if rows and rows[0].startswith(_SIGNATURE):
        # The signature has 11 bytes. Flags and the length of an extension follow, four bytes each.
        header = 19 + int.from_bytes(rows[0][15:19], "big")
        # Newer servers send the header alone, older ones with the first row.
        rows[0] = rows[0][header:]
    if rows and rows[-1] == _TRAILER:
        rows.pop()
    return [row for row in rows if row]


def cells_of(messages: Sequence[bytes], columns: int) -> Iterator[Cells]:
    """Yield the cells column by column; UnexpectedMessage if a row does not have these columns."""
    data, start, end = located(messages)
    sizes = at_every_byte(data, ">i4")
    if len(start) and (at_every_byte(data, ">i2")[start] != columns).any():
        raise UnexpectedMessage("a row of COPY has another number of columns than were selected", wanted=columns)
    # After the number of columns. One step reads a column of all rows.
    at = start + 2
    for _ in range(columns):
        if (at + 4 > end).any():
            raise UnexpectedMessage("a row of COPY ends before its last column")
        length = sizes[at].astype(np.int64)
        null = length < 0
        length = np.where(null, 0, length)
        # A cell beyond its row would be read from other memory.
        if (at + 4 + length > end).any():
            raise UnexpectedMessage("a row of COPY ends before its last column")
        yield Cells(data, at + 4, length, null)
        at = at + 4 + length
    if (at != end).any():
        raise UnexpectedMessage("a row of COPY is longer than its last column")
