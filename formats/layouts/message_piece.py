"""Some messages as one text: what groups them by layout, and their comparison with one, eight bytes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import (
    COLON,
    QUOTE,
    SPACE,
    Bytes,
    Mask,
    escape_positions,
    is_utf8,
    quotation_marks,
    unresolvable,
)
from penstock.formats.layouts.layout import MOST_BLANKS, MessageLayout, Words, layout_of
from penstock.formats.layouts.member_values import LayoutRows, PieceText
from penstock.formats.layouts.plain_values import plain_values

# Added to the places of names in a message, which weight their letters in its signature.
_WEIGHT = np.random.default_rng(7).integers(1 << 62, 1 << 63, dtype=np.uint64)
_THREE_BYTES = np.uint64(0xFFFFFF)
# Words of eight bytes are read up to the last byte, and behind it for layouts with blanks.
_PADDING = b"\n" * (8 + MOST_BLANKS)


class MessagePiece:
    """Some messages as one text, with the ends of their members' names."""

    def __init__(self, documents: Sequence[bytes], numbers: Int64s) -> None:
        self.documents, self.numbers = documents, numbers
        text = b"".join([*documents, _PADDING])
        self.data: Bytes = np.frombuffer(text, np.uint8)
        self.words: Words = np.ndarray((len(text) - 7,), "<u8", self.data, 0, (1,))
        self.ends = np.cumsum(np.fromiter(map(len, documents), np.int64, len(documents)))
        self.begins = np.append(0, self.ends[:-1])
        self.body = self.data[: len(text) - len(_PADDING)]
        self.escapes = escape_positions(text, self.body)
        self.marks: Mask = quotation_marks(self.body, self.escapes)
        closing = self.data[1 : len(self.body) + 1] == COLON
        closing &= self.marks
        self.name_ends = np.flatnonzero(closing)
        # The first name of each message, and the number of all names as last element.
        self.first_name = np.searchsorted(self.name_ends, np.append(self.begins, len(self.body)))
        self.text = PieceText(text, self.data, self.words, len(self.escapes) > 0)

    def odd(self) -> Mask:
        """Return which messages have bytes or escapes that only the general parser handles."""
        odd: Mask = np.zeros(len(self.documents), bool)
        if len(self.body) and self.body.min() < SPACE:
            odd[self._message_of(np.flatnonzero(self.body < SPACE))] = True
        if len(self.escapes) and (wrong := unresolvable(self.data, self.escapes)).any():
            odd[self._message_of(self.escapes[wrong])] = True
        if not is_utf8(self.text.text):
            odd |= np.array([not is_utf8(document) for document in self.documents])
        return odd

    def _message_of(self, positions: Int64s) -> Int64s:
        return np.searchsorted(self.ends, positions, side="right")

    def signatures(self) -> tuple[Int64s, Words]:
        """Return the messages that have names, and the signature of each: a sum over the last letters of its names."""
        counts = np.diff(self.first_name)
        rows = np.flatnonzero(counts)
        if len(rows) == 0:
            return rows, np.zeros(0, np.uint64)
        # The last three bytes are letters of the name, its opening mark, or the comma or brace in front of that, and
        # only for an empty name the end of a value.
        letters = self.words[self.name_ends - 3]
        letters &= _THREE_BYTES
        # Squares, so that two names do not have the sum of two others.
        letters *= letters
        first = self.first_name[rows]
        sums = np.add.reduceat(letters, first)
        letters *= np.arange(len(letters), dtype=np.uint64)
        # Weighted by their places in the text; the last term makes these the places in the message.
        return rows, np.add.reduceat(letters, first) + (_WEIGHT - first.astype(np.uint64)) * sums

    def by_signature(self) -> Iterator[tuple[int, Int64s]]:
        """Yield the messages of each signature, in order."""
        rows, signatures = self.signatures()
        if len(rows) == 0:
            return
        order = np.argsort(signatures, kind="stable")
        ordered = signatures[order]
        edges = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])).tolist()
        for begin, end in zip(edges, [*edges[1:], len(order)], strict=True):
            yield int(ordered[begin]), rows[order[begin:end]]

    def layout(self, row: int) -> MessageLayout | None:
        """Return the layout of one message."""
        name_ends = self.name_ends[self.first_name[row] : self.first_name[row + 1]] - self.begins[row]
        return layout_of(bytes(self.documents[row]), name_ends.tolist())

    def match(self, layout: MessageLayout, rows: Int64s) -> tuple[Mask, LayoutRows]:
        """Return which of these messages have the layout, and the values of those whose values are certain too."""
        members = len(layout.paths)
        names = self.name_ends[self.first_name[rows][None, :] + np.arange(members)[:, None]]
        gaps = np.empty((members + 1, len(rows)), np.int64)
        np.subtract(names, layout.gap_to_name_end, out=gaps[:members])
        np.subtract(self.ends[rows], layout.tail, out=gaps[members])
        fixed = layout.fixed
        places = gaps[fixed.gap]
        places += fixed.offset
        if int(gaps.min(initial=0)) < 0:
            # A message near the begin that is shorter than the layout; its bytes differ wherever they are.
            np.maximum(places, 0, out=places)
        differing = self.words[places]
        differing ^= fixed.expected
        differing &= fixed.mask
        matches: Mask = (gaps[0] == self.begins[rows]) & (np.bitwise_or.reduce(differing, axis=0) == 0)
        starts = names + layout.name_end_to_value
        sizes = gaps[1:] - starts
        matches &= (sizes[layout.others] == 0).all(axis=0) & (sizes[layout.scalars] > 0).all(axis=0)
        if not matches.all():
            rows, starts, sizes = rows[matches], starts[:, matches], sizes[:, matches]
        return matches, self._values(layout, rows, starts[layout.scalars], sizes[layout.scalars])

    def _values(self, layout: MessageLayout, rows: Int64s, starts: Int64s, sizes: Int64s) -> LayoutRows:
        ends = starts + sizes
        first = self.words[starts]
        quoted: Mask = first.astype(np.uint8) == QUOTE
        certain: Mask = (quoted == self.marks[ends - 1]) & (sizes > quoted)
        nulls: Mask = np.zeros(starts.shape, bool)
        plain = np.flatnonzero(~quoted.reshape(-1))
        accepted, null = plain_values(
            self.data, self.words, starts.reshape(-1)[plain], sizes.reshape(-1)[plain], first.reshape(-1)[plain]
        )
        certain.reshape(-1)[plain] &= accepted
        nulls.reshape(-1)[plain] = null
        found = LayoutRows(self.text, layout, rows, starts + quoted, ends - quoted, quoted, nulls)
        whole: Mask = np.logical_and.reduce(certain, axis=0)
        return found if whole.all() else found.keep(whole)
