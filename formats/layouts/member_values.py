"""The values of messages that have one layout: where they are in the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import Int32s, Int64s
from penstock.formats.json_bytes import Bytes, Mask
from penstock.formats.layouts.layout import MessageLayout, Words

# Bytes that are compared at once.
WINDOW = 16


@dataclass(frozen=True, slots=True)
class PieceText:
    """The text of several messages, with words of eight and windows of sixteen bytes at each position."""

    text: bytes | bytearray | pa.Buffer
    data: Bytes
    words: Words
    windows: npt.NDArray[np.void]

    @classmethod
    def of(cls, text: bytes | bytearray | pa.Buffer) -> PieceText:
        """Return a text that is longer than a window."""
        data: Bytes = np.frombuffer(text, np.uint8)
        words: Words = np.ndarray((len(text) - 7,), "<u8", data, 0, (1,))
        windows: npt.NDArray[np.void] = np.ndarray((len(text) - WINDOW + 1,), f"V{WINDOW}", data, 0, (1,))
        return cls(text, data, words, windows)


@dataclass(frozen=True, slots=True)
class LayoutRows:
    """Messages of one layout: where the values of the scalar members are, as arrays [scalar, message].

    `numbers` are the numbers of the messages. The positions are those inside the quotation marks of `quoted` values.
    `same` are members with a text that is known to be equal in all messages.
    """

    piece: PieceText
    layout: MessageLayout
    numbers: Int64s
    starts: Int32s
    ends: Int32s
    quoted: Mask
    nulls: Mask
    same: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def together(cls, parts: Sequence[LayoutRows]) -> LayoutRows:
        """Return the messages of several parts, which have one text and one layout."""
        first = parts[0]
        if len(parts) == 1:
            return first
        same = dict(first.same.items() & set[tuple[int, str]].intersection(*(set(part.same.items()) for part in parts)))
        whole = cls(
            first.piece,
            first.layout,
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.starts for part in parts], axis=1),
            np.concatenate([part.ends for part in parts], axis=1),
            np.concatenate([part.quoted for part in parts], axis=1),
            np.concatenate([part.nulls for part in parts], axis=1),
            same,
        )
        in_order = (whole.numbers[1:] > whole.numbers[:-1]).all()
        return whole if in_order else whole.keep(np.argsort(whole.numbers))

    def keep(self, kept: Mask | Int64s) -> LayoutRows:
        """Return the messages for which `kept` is true, or those at these places."""
        return LayoutRows(
            self.piece,
            self.layout,
            self.numbers[kept],
            self.starts[:, kept],
            self.ends[:, kept],
            self.quoted[:, kept],
            self.nulls[:, kept],
            self.same,
        )

    def renumbered(self, numbers: Int64s) -> LayoutRows:
        """Return the same messages with the numbers that `numbers` has at their places."""
        return replace(self, numbers=numbers[self.numbers])

    def moved(self, distance: int) -> LayoutRows:
        """Return the same messages with numbers that are higher by this distance."""
        return replace(self, numbers=self.numbers + distance)

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
        this, that = self.layout.scalar_number[member], self.layout.scalar_number[other]
        starts, other_starts = self.starts[this], self.starts[that]
        sizes = self.ends[this] - starts
        different: Mask = (sizes != self.ends[that] - other_starts) | (self.quoted[this] != self.quoted[that])
        words, last = self.piece.words, len(self.piece.words) - 1
        for offset in range(0, int(sizes.max(initial=0)), 8):
            shown = np.clip(sizes - offset, 0, 8)
            mask = _MASKS[shown]
            left, right = np.minimum(starts + offset, last), np.minimum(other_starts + offset, last)
            different |= ((words[left] ^ words[right]) & mask) != 0
        return different

    def values(self, member: int, places: Int64s | None, read: Callable[[str], Sequence[object]]) -> list[object]:
        """Return a member's values at these places (None: all); `read` reads an array of those that are no texts."""
        number, chosen = self.layout.scalar_number[member], slice(None) if places is None else places
        bounds = np.stack([self.starts[number][chosen], self.ends[number][chosen]], axis=1)
        values: list[object] = self._texts(bounds.reshape(-1)).to_pylist()
        plain = np.flatnonzero(~self.quoted[number][chosen]).tolist()
        if plain:
            for place, value in zip(plain, read(f"[{','.join(str(values[place]) for place in plain)}]"), strict=True):
                values[place] = value
        return values

    def have(self, members: Sequence[int], texts: Sequence[bytes]) -> Mask:
        """Return which messages have one of these texts, each at least eight bytes long, in any of these members."""
        scalars = self._scalars(members)
        starts = self.starts[scalars]
        lengths = self.ends[scalars] - starts
        lengths[~self.quoted[scalars]] = 0
        found: Mask = np.zeros(len(self), bool)
        for text in texts:
            # Usually no value has this length, and none has to be read.
            places = np.flatnonzero(lengths == len(text))
            if len(places):
                found[places[self._are(starts.reshape(-1)[places], text)] % len(self)] = True
        return found

    def _are(self, begins: Int32s, text: bytes) -> Mask:
        same: Mask = np.ones(len(begins), bool)
        for offset in [*range(0, len(text) - 8, 8), len(text) - 8]:
            same &= self.piece.words[begins + offset] == int.from_bytes(text[offset : offset + 8], "little")
        return same

    def cut(self, members: Sequence[int]) -> pa.Array:
        """Return the values of some members as texts, null for null, one member after the other."""
        scalars = self._scalars(members)
        bounds = np.empty((len(scalars), len(self), 2), np.int32)
        bounds[..., 0], bounds[..., 1] = self.starts[scalars], self.ends[scalars]
        nulls = self.nulls[scalars]
        some = bool(nulls.any())
        if some:
            np.copyto(bounds[..., 1], bounds[..., 0], where=nulls)
        texts = self._texts(bounds.reshape(-1))
        return with_nulls(texts, nulls.reshape(-1)) if some else texts

    def _scalars(self, members: Sequence[int]) -> list[int]:
        return [self.layout.scalar_number[member] for member in members]

    def _texts(self, bounds: npt.NDArray[np.integer]) -> pa.Array:
        """Return the texts between each two of the bounds."""
        # One text array contains all values and the text between them; a single `take` picks the values.
        offsets = np.empty(len(bounds) + 1, np.int32)
        offsets[:-1], offsets[-1] = bounds, len(self.piece.text)
        parts = pa.StringArray.from_buffers(len(bounds), pa.py_buffer(offsets), pa.py_buffer(self.piece.text))
        return pc.take(parts, pa.array(np.arange(0, len(bounds), 2, dtype=np.int32)), boundscheck=False)


def with_nulls(texts: pa.Array, nulls: Mask) -> pa.Array:
    """Return the texts of an array from its begin, null where `nulls` is true. Those texts are empty."""
    valid = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    _, offsets, data = texts.buffers()
    return pa.StringArray.from_buffers(len(texts), offsets, data, valid)


_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
