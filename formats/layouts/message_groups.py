"""Messages grouped by layout: all messages of a piece are compared with known layouts, eight bytes at a time.

One pass finds the quotation marks that end the names of members. A signature of those names groups the messages; the
first message of a group without a known layout is parsed, and all others are compared with it. What is not proven to
be JSON by that is left to the general parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import Mask
from penstock.formats.layouts.layout import MessageLayout
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_piece import MessagePiece

# Messages and bytes per piece, so that the index arrays of a piece stay in the CPU cache.
PIECE, PIECE_BYTES = 4_000, 8 << 20
# A layout has a fixed cost per piece: for fewer rows the general parser is quicker (measured).
FEWEST_ROWS = 30
# Of this many messages of a piece, more different signatures mean that the average layout has too few rows.
SAMPLE, MOST_IN_SAMPLE = 64, 48
_MOST_PER_SIGNATURE, _MOST_SIGNATURES = 8, 4096
_SAMPLED = np.random.default_rng(7).random(SAMPLE)


class KnownLayouts:
    """The layouts that this process has met, by signature, the latest first; bounded."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[MessageLayout, ...]] = {}

    def of(self, signature: int) -> tuple[MessageLayout, ...]:
        """Return the layouts of a signature: different ones may share it."""
        return self._found.get(signature, ())

    def add(self, signature: int, layout: MessageLayout) -> None:
        """Remember a layout."""
        if len(self._found) >= _MOST_SIGNATURES:
            self._found = {}
        self._found[signature] = (layout, *self.of(signature))[:_MOST_PER_SIGNATURE]


@dataclass(frozen=True, slots=True)
class GroupedMessages:
    """Messages by layout, and the numbers of those that the general parser has to read."""

    groups: list[LayoutRows]
    others: list[int]


def group_messages(documents: Sequence[bytes], known: KnownLayouts, fewest_rows: int) -> GroupedMessages:
    """Group messages by their layouts; layouts of fewer rows than `fewest_rows` in a piece are not looked for."""
    grouped = GroupedMessages([], [])
    for begin, end in _pieces(documents):
        numbers = np.arange(begin, end)
        if end - begin < fewest_rows or (fewest_rows > 1 and have_many_layouts(documents[begin:end])):
            grouped.others.extend(numbers.tolist())
        else:
            _group_piece(documents[begin:end], numbers, known, fewest_rows, grouped)
    return grouped


def _pieces(documents: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield pieces of nearly equal numbers of messages."""
    count = max(1, -(-len(documents) // PIECE), sum(map(len, documents)) // PIECE_BYTES)
    for piece in range(count):
        yield len(documents) * piece // count, len(documents) * (piece + 1) // count


def have_many_layouts(documents: Sequence[bytes | None]) -> bool:
    """Return whether a sample has so many layouts that the average one has too few rows to be worth its cost."""
    if len(documents) < 4 * SAMPLE:
        return False
    # Always the same places, but irregular: tables often take turns.
    sample = [documents[int(place * len(documents))] or b"" for place in _SAMPLED]
    piece = MessagePiece(sample, np.arange(SAMPLE))
    return len(np.unique(piece.signatures()[1])) > MOST_IN_SAMPLE


def _group_piece(
    documents: Sequence[bytes], numbers: Int64s, known: KnownLayouts, fewest_rows: int, grouped: GroupedMessages
) -> None:
    piece = MessagePiece(documents, numbers)
    odd = piece.odd()
    if odd.any():
        grouped.others.extend(numbers[odd].tolist())
        good = np.flatnonzero(~odd)
        if len(good) == 0:
            return
        piece = MessagePiece([documents[number] for number in good.tolist()], numbers[good])
    groups: list[LayoutRows] = []
    for signature, rows in piece.by_signature():
        if len(rows) >= fewest_rows:
            groups += [group for group in _matched(piece, signature, rows, known, fewest_rows) if len(group)]
    groups = _without_further_marks(piece, groups)
    taken: Mask = np.zeros(len(piece.numbers), bool)
    for group in groups:
        taken[group.numbers] = True
        grouped.groups.append(group.renumbered(piece.numbers))
    grouped.others.extend(piece.numbers[~taken].tolist())


def _matched(
    piece: MessagePiece, signature: int, rows: Int64s, known: KnownLayouts, fewest_rows: int
) -> Iterator[LayoutRows]:
    """Yield the messages that have a known layout, or that of the first message that has none."""
    names = np.diff(piece.first_name)[rows]
    # Different numbers of names can only have one signature by chance.
    rows = rows[names == names[0]]
    for layout in known.of(signature):
        if len(rows) >= fewest_rows and len(layout.paths) == names[0]:
            matches, found = piece.match(layout, rows)
            rows = rows[~matches]
            yield found
    # A few layouts share a signature because their names end alike; more are left to the general parser.
    for _ in range(_MOST_PER_SIGNATURE):
        if len(rows) < fewest_rows:
            return
        new = piece.layout(int(rows[0]))
        if new is None:
            rows = rows[1:]
            continue
        known.add(signature, new)
        matches, found = piece.match(new, rows)
        # The first message has its own layout, whatever is odd about its values.
        matches[0] = True
        rows = rows[~matches]
        yield found
        if np.count_nonzero(matches) < fewest_rows:
            return


def _without_further_marks(piece: MessagePiece, groups: list[LayoutRows]) -> list[LayoutRows]:
    """Leave out messages with more quotation marks than their layout and values have: these are no JSON texts."""
    # One number proves all messages at once, if all have a layout.
    expected = sum(len(group) * group.layout.marks + 2 * int(np.count_nonzero(group.quoted)) for group in groups)
    if sum(map(len, groups)) == len(piece.numbers) and expected == int(np.count_nonzero(piece.marks)):
        return groups
    marks = np.diff(np.searchsorted(np.flatnonzero(piece.marks), np.append(piece.begins, len(piece.body))))
    kept = []
    for group in groups:
        certain = marks[group.numbers] == group.layout.marks + 2 * np.count_nonzero(group.quoted, axis=0)
        group = group if certain.all() else group.keep(certain)
        if len(group):
            kept.append(group)
    return kept
