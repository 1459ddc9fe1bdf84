"""The cells of a column as positions in a buffer of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.ingest.database.buffers import at_every_byte, gathered_rows, slices

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bools, Bytes, Int64s

_VIEW = 16  # bytes that are needed to refer to a text


@dataclass(frozen=True, slots=True)
class Cells:
    """The start, length and nullness of the cells of a column. The buffer ends with spare bytes.

    `head` are the first bytes of each cell, if they were fetched when the cells were found.
    """

    data: Bytes
    start: Int64s
    length: Int64s
    null: Bools
    head: Bytes | None = None

    def __len__(self) -> int:
        return len(self.start)

    def chosen(self, index: Int64s | Bools) -> Cells:
        head = None if self.head is None else self.head[index]
        return Cells(self.data, self.start[index], self.length[index], self.null[index], head)

    def after(self, first: int, length: Int64s | None = None) -> Cells:
        """Return the cells without their first bytes, or parts of this length that begin so many bytes later."""
        rest = np.maximum(self.length - first, 0) if length is None else length
        head = None if self.head is None else self.head[:, first:]
        return Cells(self.data, self.start + first, rest, self.null, head)

    def safe(self) -> Cells:
        """Return the cells with the position of nulls at the start of the buffer, so that they can be read."""
        if not self.null.any():
            return self
        start, length = np.where(self.null, 0, self.start), np.where(self.null, 0, self.length)
        return Cells(self.data, start, length, self.null, self.head)

    def read(self, layout: str, at: int = 0) -> npt.NDArray[Any]:
        """Return the number that begins at this byte of each cell; an arbitrary number for nulls."""
        kind = np.dtype(layout)
        if self.head is None or at + kind.itemsize > self.head.shape[1]:
            return at_every_byte(self.data, layout)[self.start + at]
        numbers: npt.NDArray[Any] = self.head[:, at : at + kind.itemsize].view(kind)[:, 0]
        return numbers

    def first_bytes(self, width: int) -> Bytes:
        """Return so many bytes from the beginning of each cell, at most SPARE, as a matrix."""
        if self.head is None or self.head.shape[1] < width:
            return gathered_rows(self.data, self.start, width)
        return self.head[:, :width]

    def values(self, kind: pa.DataType) -> pa.Array:
        """Return the content of the cells as binaries, or as strings that are not checked."""
        head = self.head if self.head is not None and self.head.shape[1] >= _VIEW else None
        return slices(kind, self.data, self.start, self.length, self.null, head)

    def valid_texts(self) -> pa.Array:
        """Return the content as texts; ValueError if one is not UTF-8."""
        texts = self.values(pa.string())
        texts.validate(full=True)
        return texts
