"""Offsets and ranges: what a batch of a source is, so that reading it again gives the same rows.

Offsets are a JSON object that only their source understands; Spark keeps them in its checkpoint, snapshots carry them
in their properties. A range is one task's share of the way between two of them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Offsets: TypeAlias = dict[str, Any]

SMALLEST_PIECE = 20_000  # records; below that a task's fixed cost outweighs what a second core gains


@dataclass(frozen=True, slots=True)
class Limit:
    """How much one batch may hold; None: all there is."""

    rows: int | None = None
    bytes: int | None = None


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True)
class Range:
    """One slice of a source: reading it twice gives the same rows in the same order.

    `number` orders the ranges of one batch; rows of one key that meet are ordered by (number, position, sub). `place`
    is for people: topic/partition, file, table. `start` and `end` are JSON values of the source, `end` exclusive;
    `weight` is the work it is, in the source's own unit.
    """

    number: int
    place: str
    start: Any
    end: Any
    weight: int = 1

    def to_json(self) -> str:
        return json.dumps([self.number, self.place, self.start, self.end, self.weight], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Range:
        return cls(*json.loads(text))


class Source(Protocol):
    """A place changes come from. Holds settings only, so it pickles; connects when first asked.

    `plan` between the same offsets covers the same changes whenever it is asked, though it may cut them differently.
    Positions that the server no longer has raise PositionLost, from whichever call meets it first.
    """

    def initial_offsets(self) -> Offsets:
        """Where a pipeline without a checkpoint begins. Asked again after a crash in the first batch, so constant."""
        ...

    def available(self) -> Offsets:
        """The far end as it is now: what a bounded run goes up to."""
        ...

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Where a batch that begins at `start` ends, not beyond `until`; `start` itself when there is nothing."""
        ...

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        """The ranges between, numbered in order, cut so that about `tasks` tasks share them evenly."""
        ...

    def lag(self, offsets: Offsets) -> dict[str, int]:
        """Per place, how many records (or bytes, as the source counts) lie beyond `offsets` now."""
        ...

    def mirror(self, offsets: Offsets) -> None:
        """Show others how far the tables are, where the source has a place for that. Best effort: never raises."""
        ...

    def close(self) -> None: ...


def canonical(offsets: Offsets) -> str:
    """The one text of offsets: equal offsets have equal text."""
    return json.dumps(offsets, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def shares(available: Mapping[str, int], limit: int) -> dict[str, int]:
    """Divide `limit` among places in proportion to what they have, each with something to give getting at least one."""
    total = sum(available.values())
    if total <= limit:
        return dict(available)
    granted = {place: min(count, max(1, count * limit // total)) if count else 0 for place, count in available.items()}
    rest = limit - sum(granted.values())  # below one a place; left over, the last batch would be of these crumbs
    for place in sorted(available, key=lambda one: (-(available[one] * limit % total), one)):
        if rest > 0 and granted[place] < available[place]:
            granted[place] += 1
            rest -= 1
    return granted


def cut(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """[start, end) in even pieces of about `size`, never a small rest at the end."""
    count = max(1, round((end - start) / size))
    yield from itertools.pairwise(start + (end - start) * piece // count for piece in range(count + 1))


def piece_size(lengths: Sequence[int], tasks: int, smallest: int = SMALLEST_PIECE) -> int:
    """The length of a piece with which `tasks` tasks share all lengths evenly, but not below `smallest`."""
    return max(smallest, -(-sum(lengths) // max(1, tasks)))


def grouped(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """Neighbouring ranges together, so that at most `tasks` groups or so share the weight: many small partitions of a
    source do not become as many tasks."""
    share = sum(one.weight for one in ranges) / max(1, tasks)
    groups: list[list[Range]] = []
    room = 0.0
    for one in ranges:
        if not groups or one.weight / 2 > room:
            groups.append([])
            room = share
        groups[-1].append(one)
        room -= one.weight
    return groups
