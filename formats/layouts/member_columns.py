"""The values of messages that have one layout, as columns of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import Int64s
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.text_groups import text_groups


class MemberColumns:
    """The values of some members as text columns, one value per message.

    All are cut out of the text at once, except the members in `later`: they are cut out when one of them is requested.
    """

    def __init__(self, rows: LayoutRows, members: Sequence[int], later: Sequence[int] = ()) -> None:
        self.rows = rows
        self._columns: dict[int, pa.Array] = {}
        self._later = later
        self._add(members)

    def _add(self, members: Sequence[int]) -> None:
        members = [member for member in members if member not in self.rows.same]
        if not members:
            return
        texts, count = self.rows.cut(members), len(self.rows)
        for place, member in enumerate(members):
            self._columns[member] = texts.slice(place * count, count)

    def text(self, member: int, places: Int64s | None = None) -> pa.Array:
        """Return a member's values at these places (None: all) as text, null for null."""
        column = self._text(member)
        return column if places is None else pc.take(column, pa.array(places), boundscheck=False)

    def _text(self, member: int) -> pa.Array:
        if member in self.rows.same:
            return pa.repeat(pa.scalar(self.rows.same[member]), len(self.rows))
        if member not in self._columns:
            self._add(self._later)
        return self._columns[member]

    def integers(self, member: int, places: Int64s | None = None) -> pa.Array | None:
        """Return a member's values at these places (None: all) if all are integers of 64 bits or null, else None."""
        if self.rows.is_quoted(member).any():
            return None
        try:
            return self.text(member, places).cast(pa.int64())
        except pa.ArrowInvalid:
            return None

    def single(self, member: int) -> str | None:
        """Return the text that all messages have in this member, None if they differ or if one is null."""
        if member in self.rows.same:
            return self.rows.same[member]
        column = self._text(member)
        bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        begin, end, size = int(bounds[0]), int(bounds[-1]), int(bounds[1] - bounds[0])
        if column.null_count or end - begin != size * len(column):
            return None
        body = bytes(memoryview(column.buffers()[2] or b"")[begin:end])
        return column[0].as_py() if body == body[:size] * len(column) else None

    def groups(self, members: Sequence[int | None]) -> Iterator[tuple[tuple[str | None, ...], Int64s | None]]:
        """Yield the different values of these members and the places of their messages; None for all messages.

        The value of a member that the layout does not have is None.
        """
        texts = [None if member is None else self.single(member) for member in members]
        if all(text is not None or member is None for text, member in zip(texts, members, strict=True)):
            yield tuple(texts), None
            return
        yield from text_groups([None if member is None else self.text(member) for member in members])
