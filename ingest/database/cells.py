"""The cells of a column as positions in a buffer of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.byte_buffers import at_every_byte, gathered_rows, has_any, slices
from penstock.ingest.database.buffers import is_repeated

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Bytes, Int64s


@dataclass(frozen=True, slots=True)
class Cells:
    """The start, length and nullness of the cells of a column. The buffer ends with spare bytes.

    `head` are the first bytes of each cell, if they were fetched when the cells were found. `view` has the four bytes
    before a cell and its first 12 bytes, as Arrow refers to a short text.
    """

    data: Bytes
    start: Int64s
    length: Int64s
    null: Bools
    head: Bytes | None = None
    view: Bytes | None = None

    def __len__(self) -> int:
        return len(self.start)

    def chosen(self, index: Int64s | Bools) -> Cells:
        head = None if self.head is None else self.head[index]
        view = None if self.view is None else self.view[index]
        start = self.start[index]
        # Values that are the same everywhere are so for the chosen cells.
        length = self.length[: len(start)] if is_repeated(self.length) else self.length[index]
        null = self.null[: len(start)] if is_repeated(self.null) else self.null[index]
        return Cells(self.data, start, length, null, head, view)

    def after(self, first: int, length: Int64s | None = None) -> Cells:
        """Return the cells without their first bytes, or parts of this length after these bytes."""
        lengths = np.maximum(self.length - first, 0) if length is None else length
        head = None if self.head is None else self.head[:, first:]
        return Cells(self.data, self.start + first, lengths, self.null, head)

    def safe(self) -> Cells:
        """Return the cells with the position of nulls at the start of the buffer, so that they can be read."""
        if not has_any(self.null):
            return self
        start, length = np.where(self.null, 0, self.start), np.where(self.null, 0, self.length)
        return Cells(self.data, start, length, self.null, self.head, self.view)

    def read(self, layout: str, at: int = 0) -> npt.NDArray[Any]:
        """Return the number that begins at this byte of each cell; an arbitrary number for nulls."""
        kind = np.dtype(layout)
        if self.head is None or at + kind.itemsize > self.head.shape[1]:
            return at_every_byte(self.data, layout)[self.start + at]
        numbers: npt.NDArray[Any] = self.head[:, at : at + kind.itemsize].view(kind)[:, 0]
        return numbers

    def first_bytes(self, width: int) -> Bytes:
        """Return this number of bytes, at most SPARE, from the beginning of each cell, as a matrix."""
        if self.head is None or self.head.shape[1] < width:
            return gathered_rows(self.data, self.start, width)
        return self.head[:, :width]

    def values(self, kind: pa.DataType) -> pa.Array:
        """Return the content of the cells as binaries, or as strings that are not checked."""
        return slices(kind, self.data, self.start, self.length, self.null, self.view)

    def valid_texts(self) -> pa.Array:
        """Return the content as texts; ValueError if one is not UTF-8."""
        texts = self.values(pa.string())
        if not is_ascii(texts):
            texts.validate(full=True)
        return texts


def is_ascii(texts: pa.Array) -> bool:
    """Return whether an array, which must not be a slice, has only ASCII texts. Cheaper than a validation of UTF-8."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    content = np.frombuffer(texts.buffers()[2], np.int8, int(offsets[len(texts)]))
    return int(content.min(initial=0)) >= 0
