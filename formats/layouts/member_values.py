"""The values of messages that have one layout, as columns of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import Bytes, Mask, unescaped
from penstock.formats.layouts.layout import MessageLayout, Words


@dataclass(frozen=True, slots=True)
class PieceText:
    """The text of several messages, with words of eight bytes at each position; `escaped`: it has escapes."""

    text: bytes
    data: Bytes
    words: Words
    escaped: bool


@dataclass(frozen=True, slots=True)
class LayoutRows:
    """Messages of one layout: where the values of the scalar members are, as arrays [scalar, message].

    `numbers` are those of the messages. The positions are those inside the quotation marks of `quoted` values.
    """

    piece: PieceText
    layout: MessageLayout
    numbers: Int64s
    starts: Int64s
    ends: Int64s
    quoted: Mask
    nulls: Mask

    def __len__(self) -> int:
        return len(self.numbers)

    def keep(self, kept: Mask) -> LayoutRows:
        """Return the messages for which `kept` is true."""
        return LayoutRows(
            self.piece,
            self.layout,
            self.numbers[kept],
            self.starts[:, kept],
            self.ends[:, kept],
            self.quoted[:, kept],
            self.nulls[:, kept],
        )

    def renumbered(self, numbers: Int64s) -> LayoutRows:
        """Return the same messages with the numbers that `numbers` has at their places."""
        return replace(self, numbers=numbers[self.numbers])

    def are_texts_or_null(self, members: Sequence[int]) -> Mask:
        """Return which messages have texts or nulls, and no numbers or truth values, in all of these members."""
        scalars = self._scalars(members)
        found: Mask = np.logical_and.reduce(self.quoted[scalars] | self.nulls[scalars], axis=0)
        return found

    def are_null(self, members: Sequence[int]) -> Mask:
        """Return which messages have nulls in all of these members."""
        found: Mask = np.logical_and.reduce(self.nulls[self._scalars(members)], axis=0)
        return found

    def is_quoted(self, member: int) -> Mask:
        """Return which messages have a text in this member."""
        found: Mask = self.quoted[self.layout.scalar_number[member]]
        return found

    def null(self, member: int) -> Mask:
        """Return which messages have null in this member."""
        found: Mask = self.nulls[self.layout.scalar_number[member]]
        return found

    def differ(self, member: int, other: int) -> Mask:
        """Return in which messages the bytes of two members differ, quotation marks included."""
        one, two = self.layout.scalar_number[member], self.layout.scalar_number[other]
        starts, other_starts = self.starts[one], self.starts[two]
        sizes = self.ends[one] - starts
        different: Mask = (sizes != self.ends[two] - other_starts) | (self.quoted[one] != self.quoted[two])
        words, last = self.piece.words, len(self.piece.words) - 1
        for offset in range(0, int(sizes.max(initial=0)), 8):
            shown = np.clip(sizes - offset, 0, 8)
            mask = _MASKS[shown]
            left, right = np.minimum(starts + offset, last), np.minimum(other_starts + offset, last)
            different |= ((words[left] ^ words[right]) & mask) != 0
        return different

    def json_texts(self, member: int, places: Int64s | None) -> list[str]:
        """Return a member's values at these places (None: all) as JSON, texts with quotation marks and escapes."""
        number, chosen = self.layout.scalar_number[member], slice(None) if places is None else places
        quoted = self.quoted[number][chosen]
        bounds = np.stack([self.starts[number][chosen] - quoted, self.ends[number][chosen] + quoted], axis=1)
        texts: list[str] = self._texts(bounds.reshape(-1)).to_pylist()
        return texts

    def have(self, members: Sequence[int], text: bytes) -> Mask:
        """Return which messages have this text, at least eight bytes long, in any of these members."""
        scalars = self._scalars(members)
        starts = self.starts[scalars]
        # Usually no value has this length, and none has to be read.
        places = np.flatnonzero(self.quoted[scalars] & (self.ends[scalars] - starts == len(text)))
        begins = starts.reshape(-1)[places]
        same: Mask = np.ones(len(places), bool)
        for offset in [*range(0, len(text) - 8, 8), len(text) - 8] if len(places) else []:
            same &= self.piece.words[begins + offset] == int.from_bytes(text[offset : offset + 8], "little")
        found: Mask = np.zeros(len(self), bool)
        found[places[same] % len(self)] = True
        return found

    def columns(self, members: Sequence[int], later: Sequence[int] = ()) -> MemberColumns:
        """Return the texts of some members; all are cut out at once, and those of `later` when one is asked for."""
        return MemberColumns(self, members, later)

    def cut(self, members: Sequence[int]) -> pa.Array:
        """Return the values of some members as they are in the messages, one member after the other."""
        scalars = self._scalars(members)
        bounds = np.empty((len(scalars), len(self), 2), np.int32)
        bounds[..., 0], bounds[..., 1] = self.starts[scalars], self.ends[scalars]
        return self._texts(bounds.reshape(-1))

    def _scalars(self, members: Sequence[int]) -> list[int]:
        return [self.layout.scalar_number[member] for member in members]

    def _texts(self, bounds: npt.NDArray[np.integer]) -> pa.Array:
        """Return the texts between each two of the bounds."""
        # One text array contains all values and the text between them; a single `take` picks the values.
        offsets = np.empty(len(bounds) + 1, np.int32)
        offsets[:-1], offsets[-1] = bounds, len(self.piece.text)
        parts = pa.StringArray.from_buffers(len(bounds), pa.py_buffer(offsets), pa.py_buffer(self.piece.text))
        return pc.take(parts, pa.array(np.arange(0, len(bounds), 2, dtype=np.int32)), boundscheck=False)


_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


class MemberColumns:
    """The values of some members as text columns, one value per message."""

    def __init__(self, rows: LayoutRows, members: Sequence[int], later: Sequence[int]) -> None:
        self.rows = rows
        self._columns: dict[int, pa.Array] = {}
        self._later = later
        self._cuts: dict[int, pa.Array] = {}
        self._add(members)

    def _add(self, members: Sequence[int]) -> None:
        texts, count = self.rows.cut(members), len(self.rows)
        for place, member in enumerate(members):
            self._cuts[member] = texts.slice(place * count, count)

    def _cut(self, member: int) -> pa.Array:
        """Return the values as they are in the message: nulls as text, and escapes not resolved."""
        if member not in self._cuts:
            self._add(self._later)
        return self._cuts[member]

    def text(self, member: int, places: Int64s | None = None) -> pa.Array:
        """Return a member's values at these places (None: all) as text, null for null."""
        column = self._text(member)
        return column if places is None else pc.take(column, pa.array(places), boundscheck=False)

    def _text(self, member: int) -> pa.Array:
        if member not in self._columns:
            # Messages with escapes that cannot be resolved have no layout.
            column = unescaped(self._cut(member)) if self.rows.piece.escaped else self._cut(member)
            nulls = self.rows.null(member)
            if nulls.any():
                column = pc.if_else(pa.array(nulls), pa.scalar(None, pa.string()), column)
            self._columns[member] = column
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
        column = self._cut(member)
        bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        begin, end, size = int(bounds[0]), int(bounds[-1]), int(bounds[1] - bounds[0])
        if self.rows.null(member).any() or end - begin != size * len(column):
            return None
        body = bytes(memoryview(column.buffers()[2] or b"")[begin:end])
        return self.text(member)[0].as_py() if body == body[:size] * len(column) else None

    def groups(self, members: Sequence[int | None]) -> Iterator[tuple[tuple[str | None, ...], Int64s | None]]:
        """Yield the different values of these members and the places of their messages; None for all messages.

        The value of a member that the layout does not have is None.
        """
        texts = [None if member is None else self.single(member) for member in members]
        if all(text is not None or member is None for text, member in zip(texts, members, strict=True)):
            yield tuple(texts), None
            return
        codes = np.zeros(len(self.rows), np.int64)
        values: list[list[str | None]] = []
        for member in members:
            if member is None:
                values.append([None])
                continue
            encoded = self.text(member).dictionary_encode(null_encoding="encode")
            values.append(encoded.dictionary.to_pylist())
            codes = codes * len(values[-1]) + np.asarray(encoded.indices)
        for code in np.unique(codes):
            rest, group = int(code), list[str | None]()
            for choices in reversed(values):
                rest, place = divmod(rest, len(choices))
                group.append(choices[place])
            yield tuple(reversed(group)), np.flatnonzero(codes == code)
