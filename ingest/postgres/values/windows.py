"""Cells of rows, column after column: found for all rows at once, and read together with their neighbours.

numpy fetches 100 bytes of each row as quickly as four. So a window of each row is fetched: columns whose values all
have the width of their type, and the beginning of the column after them, which decides where the next window begins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.byte_buffers import gathered_rows, has_any
from penstock.ingest.database.buffers import SPARE, repeated
from penstock.ingest.database.cells import Cells
from penstock.ingest.postgres.errors import UnexpectedMessage

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.postgres.relation import PgType

# Bytes of a value.
WIDTHS = {"int2": 2, "int4": 4, "int8": 8, "float4": 4, "float8": 8, "bool": 1, "date": 4, "time": 8, "timestamp": 8}
WIDTHS |= {"timestamptz": 8, "uuid": 16}
_HEAD = 16
_NUMERIC_HEADER = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """The bytes of each value of a column, None if values differ, and how many first bytes of a value to fetch."""

    width: int | None = None
    head: int = _HEAD

    @classmethod
    def of(cls, kind: PgType) -> Shape:
        """Return the shape of a type in the binary format."""
        if kind.element is None and kind.name in WIDTHS:
            return cls(WIDTHS[kind.name], WIDTHS[kind.name])
        if kind.name == "numeric" and kind.element is None and kind.decimal is not None:
            precision, scale = kind.decimal
            return cls(None, _NUMERIC_HEADER + 2 * (-(-(precision - scale) // 4) - (-scale // 4)))
        return cls()


class RowCells(ABC):
    """The cells of rows that begin at `at` and end at `end`. Afterwards `at` is where the last cells end."""

    header: int  # bytes before the content of a cell

    def __init__(self, data: Bytes, at: Int64s, end: Int64s) -> None:
        self.data, self.at, self.end = data, at, end

    @abstractmethod
    def all_have(self, headers: Bytes, width: int) -> bool:
        """Return whether all of these cells have content of this width."""

    @abstractmethod
    def read(self, headers: Bytes) -> tuple[Int64s, Bools, Int64s | int]:
        """Return the lengths of the contents, which cells are null, and the bytes of their headers."""

    def columns(self, shapes: Sequence[Shape]) -> Iterator[Cells]:
        """Yield the cells of each column. UnexpectedMessage if a row ends before its last column."""
        all_present = repeated(value=False, count=len(self.at))
        widths = {shape.width: repeated(shape.width, len(self.at)) for shape in set(shapes) if shape.width is not None}
        place = 0
        while place < len(shapes):
            # A row that has ended is followed by another or by spare bytes, so this reads no other memory.
            window = gathered_rows(self.data, self.at, _window_bytes(shapes[place:], self.header))
            first, content = 0, self.header
            while place < len(shapes) and (width := shapes[place].width) is not None:
                if content + width > window.shape[1] or not self.all_have(window[:, first:content], width):
                    break
                head = window[:, content : content + width]
                yield Cells(self.data, self.at + content, widths[width], all_present, head)
                first, place = content + width, place + 1
                content = first + self.header
            if place == len(shapes) or (first and content + shapes[place].head > window.shape[1]):
                self._go_to(self.at + first)
                continue
            length, null, header = self.read(window[:, first:content])
            head = window[:, content : content + shapes[place].head]
            # The length is in the four bytes before the content.
            view = window[:, content - 4 : content + 12] if content + 12 <= window.shape[1] else None
            cells = Cells(self.data, self.at + content, length, null, head, view)
            self._go_to(self.at + first + header + length)
            yield cells
            place += 1

    def _go_to(self, at: Int64s) -> None:
        # A cell beyond its row would be read from other memory.
        if has_any(at > self.end):
            raise UnexpectedMessage("a row ends before its last column")
        self.at = at


def _window_bytes(shapes: Sequence[Shape], header: int) -> int:
    """Return how many bytes to fetch: columns of a width, and the head of the first one without."""
    size = 0
    for shape in shapes:
        size += header + (shape.head if shape.width is None else shape.width)
        if shape.width is None or size >= SPARE:
            break
    return min(size, SPARE)
