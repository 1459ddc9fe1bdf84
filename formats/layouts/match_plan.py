"""How messages are compared with a layout: the bytes that all of them have as windows of sixteen bytes.

The general plan compares the bytes outside of scalar values. The usual plan also takes quotation marks, and the values
of some members, as bytes that all messages have. It is made from the messages that a process has met: one that differs
from it is compared by the general plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.formats.change import Int64s
from penstock.formats.layouts.layout import MemberPath, MessageLayout, Words
from penstock.formats.layouts.member_values import WINDOW, LayoutRows

_WORD = WINDOW // 2
_MARK = b'"'
# Characters that may have been escaped in the messages: plans compare the bytes before escapes are resolved.
_MAYBE_ESCAPED = re.compile(rb'["\\/\x00-\x1f]')
# A usual plan is made from at least this many messages, and not again more often than this.
_LEARNED_FROM, _MOST_PLANS = 100, 4


@dataclass(frozen=True, slots=True)
class SameValue:
    """A text that is equal in all messages: its scalar, its text, and where it begins from the begin of a gap."""

    scalar: int
    text: bytes
    gap: int
    distance: int


@dataclass(frozen=True, slots=True, eq=False)
class MatchPlan:
    """The gaps between the values that differ, as columns for broadcasting; distances are in bytes.

    `scalars` are the numbers of the scalars that differ, `names` the numbers of their members. Of these, `texts` are
    always texts, whose quotation marks are in the gaps, and `others` may be anything; both are numbers of gaps. `mask`
    and `expected` are the first and the second half of each window.
    """

    layout: MessageLayout
    scalars: Int64s
    names: Int64s
    to_name_end: Int64s
    name_end_to_value: Int64s
    least: Int64s
    tail: int
    texts: Int64s
    others: Int64s
    same: tuple[SameValue, ...]
    gap: Int64s
    offset: Int64s
    mask: tuple[Words, Words]
    expected: tuple[Words, Words]

    @classmethod
    def of(cls, layout: MessageLayout, texts: Iterable[int] = (), same: Mapping[int, bytes] | None = None) -> MatchPlan:
        """Return the plan with these scalars as texts and these values as the same in all messages."""
        quoted, equal = frozenset(texts), same or {}
        scalars: list[int] = []
        gaps: list[bytes] = []
        name_at: list[int] = []
        values: list[SameValue] = []
        gap = b""
        for scalar, (text, at) in enumerate(zip(layout.gaps.texts, layout.gaps.name_at, strict=False)):
            name_end = len(gap) + at
            gap += text
            value = equal.get(scalar)
            if value is not None:
                values.append(SameValue(scalar, value, len(gaps), len(gap) + 1))
                gap += _MARK + value + _MARK
                continue
            mark = _MARK if scalar in quoted else b""
            scalars.append(scalar)
            name_at.append(name_end)
            gaps.append(gap + mark)
            gap = mark
        gaps.append(gap + layout.gaps.texts[-1])
        is_text = np.array([scalar in quoted for scalar in scalars], np.bool_)
        return cls(
            layout,
            np.array(scalars, np.int64),
            layout.scalars[scalars][:, None],
            np.array(name_at, np.int64)[:, None],
            np.array([len(gap) - at for gap, at in zip(gaps, name_at, strict=False)], np.int64)[:, None],
            (~is_text).astype(np.int64)[:, None],
            len(gaps[-1]),
            np.flatnonzero(is_text),
            np.flatnonzero(~is_text),
            tuple(values),
            *_windows(gaps),
        )


class LayoutPlans:
    """The plans of a layout. `constant` are the members that most messages of a layout have the same text in."""

    def __init__(self, layout: MessageLayout, constant: frozenset[MemberPath]) -> None:
        self.layout, self.general = layout, MatchPlan.of(layout)
        self.usual: MatchPlan | None = None
        members = [layout.scalar(*path) for path in sorted(constant)]
        self._constant = [layout.scalar_number[member] for member in members if member is not None]
        self._plans = 0
        self._texts: frozenset[int] | None = None
        self._same: dict[int, bytes] = {}

    def learn(self, rows: LayoutRows) -> None:
        """Make the usual plan, from messages that it does not fit if there was one."""
        if len(rows) < _LEARNED_FROM or self._plans >= _MOST_PLANS:
            return
        self._plans += 1
        texts = frozenset(np.flatnonzero(rows.quoted.all(axis=1)).tolist())
        same = {scalar: text for scalar in self._constant if (text := _same_text(rows, scalar)) is not None}
        if self._texts is not None:
            texts &= self._texts
            same = {scalar: text for scalar, text in same.items() if self._same.get(scalar) == text}
        self._texts, self._same = texts, same
        different = len(self.layout.scalars) - len(same)
        self.usual = MatchPlan.of(self.layout, texts - same.keys(), same) if different and (texts or same) else None


def _same_text(rows: LayoutRows, scalar: int) -> bytes | None:
    """Return the text that a scalar is in all messages, None if they differ or if it has escapes."""
    starts, ends = rows.starts[scalar].tolist(), rows.ends[scalar].tolist()
    text = rows.piece.text
    found = {bytes(text[start:end]) for start, end in zip(starts, ends, strict=True)}
    value = found.pop()
    return None if found or _MAYBE_ESCAPED.search(value) or not rows.quoted[scalar].all() else value


def _windows(
    gaps: list[bytes],
) -> tuple[Int64s, Int64s, tuple[Words, Words], tuple[Words, Words]]:
    windows: list[tuple[int, int, bytes]] = []
    for number, gap in enumerate(gaps):
        windows += [(number, offset, gap[offset : offset + WINDOW]) for offset in range(0, len(gap), WINDOW)]
    halves = [[text[begin : begin + _WORD] for *_, text in windows] for begin in (0, _WORD)]
    masks = [_column((1 << 8 * len(word)) - 1 for word in half) for half in halves]
    words = [_column(int.from_bytes(word, "little") for word in half) for half in halves]
    numbers = np.array([number for number, _, _ in windows], np.int64)
    offsets = np.array([offset for _, offset, _ in windows], np.int64)[:, None]
    return numbers, offsets, (masks[0], masks[1]), (words[0], words[1])


def _column(words: Iterable[int]) -> npt.NDArray[np.uint64]:
    return np.array(list(words), np.uint64)[:, None]
