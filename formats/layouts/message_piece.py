"""Some messages as one text: the signatures that group them, and the comparison with a layout, 16 bytes at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import QUOTE, SPACE, Mask, is_utf8
from penstock.formats.layouts.layout import MessageLayout, Words, layout_of
from penstock.formats.layouts.match_plan import LayoutPlans, MatchPlan
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_texts import MessageTexts, name_ends
from penstock.formats.layouts.plain_values import plain_values

# Added to the places of names in a message, which weight their letters in its signature.
_WEIGHT = np.random.default_rng(7).integers(1 << 62, 1 << 63, dtype=np.uint64)
_BYTE = np.uint64(8)
# Windows that are compared at once: their bytes stay in the CPU cache, and the memory for them is not new each time.
_MOST_WINDOWS = 1 << 16


class MessagePiece:
    """Some messages of a text, with the ends of their members' names. Positions are those in the whole text."""

    def __init__(self, texts: MessageTexts, first: int, stop: int) -> None:
        self.texts, self.first = texts, first
        self.begins, self.ends = texts.begins[first:stop], texts.ends[first:stop]
        self.offset, end = (int(self.begins[0]), int(self.ends[-1])) if stop > first else (0, 0)
        self.data = texts.marks.data
        self.body = self.data[self.offset : end]
        self.name_ends, self.mark_count = name_ends(self.data, self.offset, end)
        # The first name of each message, and the number of all names as last element.
        self.first_name = np.searchsorted(self.name_ends, np.append(self.begins, end))

    def marks(self, positions: Int64s) -> Mask:
        """Return at which of these positions there is a quotation mark that is not escaped."""
        found: Mask = self.data[positions] == QUOTE
        return found

    def marks_of(self, rows: Int64s) -> int:
        """Return the number of quotation marks of these messages, which should be few."""
        bounds = zip(self.begins[rows].tolist(), self.ends[rows].tolist(), strict=True)
        return sum(self.texts.marks.text.count(b'"', begin, end) for begin, end in bounds)

    def marks_of_messages(self) -> Int64s:
        """Return the number of quotation marks of each message."""
        edges = np.append(self.begins - self.offset, len(self.body))
        return np.diff(np.searchsorted(np.flatnonzero(self.body == QUOTE), edges))

    def odd(self) -> Mask:
        """Return which messages have bytes or escapes that only the general parser handles."""
        odd: Mask = np.zeros(len(self.begins), bool)
        if len(self.body) and self.body.min() < SPACE:
            odd[self._message_of(np.flatnonzero(self.body < SPACE) + self.offset)] = True
        end = self.offset + len(self.body)
        wrong = self.texts.unresolved
        if len(wrong):
            odd[wrong[slice(*np.searchsorted(wrong, [self.first, self.first + len(odd)]))] - self.first] = True
        if not is_utf8(self.texts.piece.data[self.offset : end]):
            documents = self.texts.documents[self.first : self.first + len(odd)]
            odd |= np.array([not is_utf8(document) for document in documents])
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
        data, places = self.data, self.name_ends - 1
        letters = data[places].astype(np.uint64)
        for _ in range(2):
            places -= 1
            letters <<= _BYTE
            letters |= data[places]
        # Squares, so that two names do not have the sum of two others.
        letters *= letters
        first = self.first_name[rows]
        sums = np.add.reduceat(letters, first)
        letters *= np.arange(len(letters), dtype=np.uint64)
        # Weighted by their places in the text; the last term makes these the places in the message.
        return rows, np.add.reduceat(letters, first) + (_WEIGHT - first.astype(np.uint64)) * sums

    def by_signature(self, wanted: Mask) -> Iterator[tuple[int, Int64s]]:
        """Yield the wanted messages of each signature, in order."""
        if not wanted.any():
            return
        rows, signatures = self.signatures()
        chosen = wanted[rows]
        rows, signatures = rows[chosen], signatures[chosen]
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
        number = self.first + row
        return layout_of(bytes(self.texts.documents[number]), self.texts.marked(number), name_ends.tolist())

    def match(self, plans: LayoutPlans, rows: Int64s) -> tuple[Mask, LayoutRows]:
        """Return which of these messages have the layout, and the values of those whose values are certain too."""
        plan = plans.usual or plans.general
        matches, found = self._matched(plan, rows)
        if plan is plans.general:
            plans.learn(found)
            return matches, found
        if len(found) == len(rows):
            return matches, found
        # What does not fit the usual plan may yet have the layout.
        left = np.flatnonzero(~np.isin(rows, found.numbers, assume_unique=True))
        others, more = self._matched(plans.general, rows[left])
        matches[left] = others
        if 4 * len(more) > len(rows):
            plans.learn(more)
        return matches, LayoutRows.together([found, more])

    def _matched(self, plan: MatchPlan, rows: Int64s) -> tuple[Mask, LayoutRows]:
        """Return the same by one plan."""
        size = max(64, _MOST_WINDOWS // len(plan.gap))
        count = max(1, -(-len(rows) // size))
        bounds = [len(rows) * part // count for part in range(count + 1)]
        found = [self._compared(plan, rows[begin:end]) for begin, end in pairwise(bounds)]
        if count == 1:
            return found[0]
        return np.concatenate([matches for matches, _ in found]), LayoutRows.together(
            [layout_rows for _, layout_rows in found]
        )

    def _compared(self, plan: MatchPlan, rows: Int64s) -> tuple[Mask, LayoutRows]:
        names = self.name_ends[self.first_name[rows] + plan.names]
        gaps = np.empty((len(names) + 1, len(rows)), np.int64)
        np.subtract(names, plan.to_name_end, out=gaps[:-1])
        np.subtract(self.ends[rows], plan.tail, out=gaps[-1])
        matches = self._have_fixed_bytes(plan, gaps)
        matches &= gaps[0] == self.begins[rows]
        starts = np.add(names, plan.name_end_to_value, out=names)
        matches &= (gaps[1:] - starts >= plan.least).all(axis=0)
        if not matches.all():
            rows = rows[matches]
            # Contiguous, unlike `starts[:, matches]`.
            starts, gaps = np.compress(matches, starts, axis=1), np.compress(matches, gaps, axis=1)
        return matches, self._values(plan, rows, starts, gaps)

    def _have_fixed_bytes(self, plan: MatchPlan, gaps: Int64s) -> Mask:
        count = gaps.shape[1]
        places = gaps[plan.gap]
        places += plan.offset
        if int(gaps.min(initial=0)) < 0:
            # A message near the begin that is shorter than the layout; its bytes differ wherever they are.
            np.maximum(places, 0, out=places)
        words = self.texts.marks.windows[places].view("<u8").reshape(len(places), count, 2)
        differing: Words = np.zeros(count, np.uint64)
        for half in range(2):
            differences = words[..., half] ^ plan.expected[half]
            differences &= plan.mask[half]
            differing |= np.bitwise_or.reduce(differences, axis=0)
        same: Mask = differing == 0
        return same

    def _values(self, plan: MatchPlan, rows: Int64s, starts: Int64s, gaps: Int64s) -> LayoutRows:
        layout, count = plan.layout, len(rows)
        scalars = len(layout.scalars)
        begins, ends = np.empty((scalars, count), np.int32), np.empty((scalars, count), np.int32)
        quoted, nulls = np.ones((scalars, count), bool), np.zeros((scalars, count), bool)
        whole: Mask = np.ones(count, bool)
        if len(plan.texts):
            closing = gaps[plan.texts + 1]
            chosen = plan.scalars[plan.texts]
            begins[chosen], ends[chosen] = starts[plan.texts], closing
        for value in plan.same:
            begins[value.scalar] = gaps[value.gap] + value.distance
            ends[value.scalar] = begins[value.scalar] + len(value.text)
        if len(plan.others):
            chosen = plan.scalars[plan.others]
            first, last = starts[plan.others], gaps[plan.others + 1]
            marked, null = self._other_values(first, last, whole)
            begins[chosen], ends[chosen] = first + marked, last - marked
            quoted[chosen], nulls[chosen] = marked, null
        same = {int(layout.scalars[value.scalar]): value.text.decode() for value in plan.same}
        found = LayoutRows(self.texts.piece, layout, rows, begins, ends, quoted, nulls, same)
        return found if whole.all() else found.keep(whole)

    def _other_values(self, starts: Int64s, ends: Int64s, whole: Mask) -> tuple[Mask, Mask]:
        """Return which values are texts and which are null; messages with uncertain ones are not `whole`."""
        sizes = ends - starts
        quoted = self.marks(starts)
        certain: Mask = (quoted == self.marks(ends - 1)) & (sizes > quoted)
        nulls: Mask = np.zeros(starts.shape, bool)
        piece = self.texts.marks
        plain = np.flatnonzero(~quoted.reshape(-1))
        accepted, null = plain_values(piece.data, piece.words, starts.reshape(-1)[plain], sizes.reshape(-1)[plain])
        certain.reshape(-1)[plain] &= accepted
        nulls.reshape(-1)[plain[null]] = True
        whole &= certain.all(axis=0)
        return quoted, nulls
