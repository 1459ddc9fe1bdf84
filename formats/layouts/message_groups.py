"""Messages grouped by layout: all messages of a piece are compared with known layouts, sixteen bytes at a time.

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
from penstock.formats.layouts.layout import MemberPath, MessageLayout
from penstock.formats.layouts.match_plan import LayoutPlans
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_piece import MessagePiece
from penstock.formats.layouts.message_texts import MessageTexts

# Messages and bytes per piece. A layout has a fixed cost in a piece, which few messages do not repay.
PIECE, PIECE_BYTES = 20_000, 16 << 20
# A layout has a fixed cost per piece: for fewer rows the general parser is quicker (measured).
FEWEST_ROWS = 30
# Of this many messages of a piece, more different signatures mean that the average layout has too few rows.
SAMPLE, MOST_IN_SAMPLE = 64, 48
# Messages of each layout that are compared at once: what is known of their places stays in the CPU cache.
BLOCK = 2_000
_MOST_PER_SIGNATURE, _MOST_SIGNATURES = 8, 4096
# The share of messages with as many names that the usual layout has, and the most different numbers of names.
_USUAL, _MOST_USUAL = 0.9, 16
_SAMPLED = np.random.default_rng(7).random(SAMPLE)


class KnownLayouts:
    """The layouts that this process has met, by signature, the latest first; bounded.

    `constant` are members that most messages of one layout have the same text in.
    """

    def __init__(self, *constant: MemberPath) -> None:
        self._constant = frozenset(constant)
        self._found: dict[int, tuple[LayoutPlans, ...]] = {}
        # The layout that most messages with this number of names have. Usually all have it, and no signatures are
        # needed.
        self.usual: dict[int, LayoutPlans] = {}

    def of(self, signature: int) -> tuple[LayoutPlans, ...]:
        """Return the layouts of a signature: different ones may share it."""
        return self._found.get(signature, ())

    def add(self, signature: int, layout: MessageLayout) -> LayoutPlans:
        """Remember a layout."""
        if len(self._found) >= _MOST_SIGNATURES:
            self._found, self.usual = {}, {}
        plans = LayoutPlans(layout, self._constant)
        self._found[signature] = (plans, *self.of(signature))[:_MOST_PER_SIGNATURE]
        return plans

    def note(self, plans: LayoutPlans, share: float) -> None:
        """Note which share of the messages with as many names have a layout."""
        if share >= _USUAL and len(self.usual) < _MOST_USUAL:
            self.usual[len(plans.layout.paths)] = plans


@dataclass(frozen=True, slots=True)
class GroupedMessages:
    """Messages by layout, and the numbers of those that the general parser has to read."""

    groups: list[LayoutRows]
    others: list[int]


def group_messages(documents: Sequence[bytes], known: KnownLayouts, fewest_rows: int) -> GroupedMessages:
    """Group messages by their layouts; layouts of fewer rows than `fewest_rows` in a piece are not looked for."""
    grouped = GroupedMessages([], [])
    for begin, end in _pieces(documents):
        layouts = layouts_in_sample(documents[begin:end]) if fewest_rows > 1 else 1
        if end - begin < fewest_rows or layouts > MOST_IN_SAMPLE:
            grouped.others.extend(range(begin, end))
        else:
            _group_piece(documents[begin:end], np.arange(begin, end), layouts, known, fewest_rows, grouped)
    return grouped


def _pieces(documents: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield pieces of nearly equal numbers of messages."""
    count = max(1, -(-len(documents) // PIECE), sum(map(len, documents)) // PIECE_BYTES)
    for piece in range(count):
        yield len(documents) * piece // count, len(documents) * (piece + 1) // count


def have_many_layouts(documents: Sequence[bytes | None]) -> bool:
    """Return whether a sample has too many layouts: the average one would have too few rows to be worth its cost."""
    return layouts_in_sample(documents) > MOST_IN_SAMPLE


def layouts_in_sample(documents: Sequence[bytes | None]) -> int:
    """Return the number of different signatures in a sample, 1 for few messages."""
    if len(documents) < 4 * SAMPLE:
        return 1
    # Always the same places, but irregular: tables often take turns.
    sample = MessageTexts([documents[int(place * len(documents))] or b"" for place in _SAMPLED])
    return len(np.unique(MessagePiece(sample, 0, SAMPLE).signatures()[1]))


def _group_piece(
    documents: Sequence[bytes],
    numbers: Int64s,
    layouts: int,
    known: KnownLayouts,
    fewest_rows: int,
    grouped: GroupedMessages,
) -> None:
    blocks = max(1, len(documents) // max(BLOCK * layouts, 1))
    groups, rare = _group_blocks(MessageTexts(documents), blocks, known, fewest_rows)
    if blocks > 1 and len(rare) >= fewest_rows:
        # Layouts that only a few messages of a block have may be those of enough messages of the piece.
        texts = MessageTexts([documents[number] for number in rare.tolist()])
        groups += [group.renumbered(rare) for group in _group_blocks(texts, 1, known, fewest_rows)[0]]
    left: Mask = np.ones(len(documents), bool)
    for group in groups:
        left[group.numbers] = False
        grouped.groups.append(group.renumbered(numbers))
    grouped.others.extend(numbers[left].tolist())


def _group_blocks(
    texts: MessageTexts, blocks: int, known: KnownLayouts, fewest_rows: int
) -> tuple[list[LayoutRows], Int64s]:
    """Return the messages by layout, and the numbers of messages with a layout that is too rare in their block."""
    found: dict[int, list[LayoutRows]] = {}
    rare: list[Int64s] = []
    count = len(texts.documents)
    for block in range(blocks):
        piece = MessagePiece(texts, count * block // blocks, count * (block + 1) // blocks)
        groups, left = _usual(piece, known, fewest_rows)
        for signature, rows in piece.by_signature(left):
            if len(rows) >= fewest_rows:
                groups += _matched(piece, signature, rows, known, fewest_rows)
            else:
                rare.append(rows + piece.first)
        for group in _without_further_marks(piece, [group for group in groups if len(group)]):
            found.setdefault(id(group.layout), []).append(group.moved(piece.first))
    return [LayoutRows.together(parts) for parts in found.values()], np.concatenate([*rare, np.zeros(0, np.int64)])


def _usual(piece: MessagePiece, known: KnownLayouts, fewest_rows: int) -> tuple[list[LayoutRows], Mask]:
    """Return the messages that have the usual layout for their number of names, and which others have names."""
    names = np.diff(piece.first_name)
    left: Mask = (names > 0) & ~piece.odd()
    groups: list[LayoutRows] = []
    for number, plans in list(known.usual.items()):
        rows = np.flatnonzero(left & (names == number))
        if len(rows) >= fewest_rows:
            matches, found = piece.match(plans, rows)
            left[rows[matches]] = False
            groups.append(found)
            if 2 * np.count_nonzero(matches) < len(rows):
                del known.usual[number]
    return groups, left


def _matched(
    piece: MessagePiece, signature: int, rows: Int64s, known: KnownLayouts, fewest_rows: int
) -> Iterator[LayoutRows]:
    """Yield the messages with a known layout, or with the layout of the first message without a known one."""
    counts = np.diff(piece.first_name)
    names = counts[rows]
    # Different numbers of names can only have one signature by chance.
    rows = rows[names == names[0]]
    for plans in known.of(signature):
        if len(rows) >= fewest_rows and len(plans.layout.paths) == names[0]:
            matches, found = piece.match(plans, rows)
            known.note(plans, np.count_nonzero(matches) / np.count_nonzero(counts == names[0]))
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
        matches, found = piece.match(known.add(signature, new), rows)
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
    left: Mask = np.ones(len(piece.begins), bool)
    for group in groups:
        left[group.numbers] = False
    if expected == piece.mark_count - piece.marks_of(np.flatnonzero(left)):
        return groups
    marks = piece.marks_of_messages()
    kept = []
    for group in groups:
        certain = marks[group.numbers] == group.layout.marks + 2 * np.count_nonzero(group.quoted, axis=0)
        group = group if certain.all() else group.keep(certain)
        if len(group):
            kept.append(group)
    return kept
