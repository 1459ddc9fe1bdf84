"""The ranges that are deferred for tables with an interval: one position for each interval, beside the newest one.

A batch's offsets have a member `freshness`: the rules by which the batch is read, and by interval the position up to
which its tables were read, with the time when they had all that the batch read. An interval that is due advances to
the end of the batch. This is decided when the batch is planned, and is a part of its offsets, so that a repeated batch
reads the same ranges for the same tables, and no state is needed beside the offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from penstock.errors import ConfigError, PositionLost
from penstock.ingest.freshness import NO_FRESHNESS, FreshnessRules, Reading, duration
from penstock.ingest.source import Limit, Offsets, Range, Source

FRESHNESS = "freshness"  # among the source's offsets
_READ_AT = "at"  # in the position of an interval: when its tables had all that was read, in epoch milliseconds


@runtime_checkable
class DeferringSource(Source, Protocol):
    """A source that can plan ranges from the end of an earlier batch. All but `deferred_end` only compute.

    Starts of its ranges are positions of records.
    """

    def standing(self, start: Offsets) -> Offsets:
        """Return the end of a batch that begins here and reads nothing."""
        ...

    def deferred(self, position: Offsets, end: Offsets) -> Offsets:
        """Return the position of tables that do not read the batch with this end.

        It is `position`, with the beginnings of partitions that the batch found, and moved by the gaps that it
        accepted.
        """
        ...

    def deferred_end(self, position: Offsets, newest: Offsets, limit: Limit) -> Offsets:
        """Return the end of a range from `position` to `newest`, or before it as the limit demands.

        Raise PositionLost if the server no longer has the range.
        """
        ...

    def behind(self, position: Offsets, newest: Offsets) -> int:
        """Return how much is between two positions, in the unit of `lag`."""
        ...

    def oldest(self, positions: Sequence[Offsets]) -> Offsets:
        """Return the position up to which all of these have been read."""
        ...


@runtime_checkable
class WithDeferringSource(Protocol):
    """A source of changes that reads from another one, which may defer ranges."""

    @property
    def deferring(self) -> DeferringSource | None: ...


def deferring_source(source: object) -> DeferringSource:
    """Return the source as one that can defer ranges. Whether it can is a capability of its connector."""
    found = source.deferring if isinstance(source, WithDeferringSource) else source
    if not isinstance(found, DeferringSource):
        raise ConfigError(
            f"{type(source).__name__} cannot defer ranges for tables with a freshness",
            hint="remove  freshness  from the pipeline",
        )
    return found


@dataclass(frozen=True, slots=True)
class DeferredRanges:
    """The member `freshness` of offsets: the rules, and the position of each interval."""

    rules: FreshnessRules = NO_FRESHNESS
    positions: Mapping[int, Offsets] = field(default_factory=dict)

    @classmethod
    def of(cls, offsets: Mapping[str, Any]) -> DeferredRanges:
        content = offsets.get(FRESHNESS)
        if content is None:
            return cls()
        positions = {int(interval): position for interval, position in content["read"].items()}
        return cls(FreshnessRules.from_json(content), positions)

    def to_json(self) -> dict[str, Any]:
        read = {str(interval): position for interval, position in sorted(self.positions.items())}
        return {**self.rules.to_json(), "read": read}

    def read_at(self, interval: int) -> int:
        """Return when the tables of an interval had all that was read; 0 if they never had."""
        return int(self.positions.get(interval, {}).get(_READ_AT, 0))

    def is_due(self, interval: int, now: int) -> bool:
        # A clock that was set back must not defer tables for longer.
        return not 0 <= now - self.read_at(interval) < interval


def next_end(
    source: DeferringSource,
    rules: FreshnessRules,
    start: Offsets,
    limit: Limit,
    until: Offsets | None,
    clock: Callable[[], int],
) -> Offsets:
    """Return the end of a batch that begins at `start`, or `start` itself if there is nothing to read.

    If the rules differ from the rules of `start`, they apply once the old intervals have been read to one position.
    """
    newest = source.latest_offsets(start, limit, until)
    moved, before = newest != start, DeferredRanges.of(start)
    newest = newest if moved else source.standing(start)
    changes = before.rules != rules
    drains = changes and any(source.behind(position, start) for position in before.positions.values())
    if changes and not drains:
        before = DeferredRanges(rules)
    # A bounded run ends when all tables have the records up to its end.
    drains = drains or (until is not None and _is_last(source, newest, limit, until, moved=moved))
    batch = _Advance(source, start, newest, limit, before, clock(), moved=moved)
    positions = {interval: batch.position(interval, due=drains) for interval in before.rules.intervals}
    if not moved and not batch.read:
        return start
    deferred = DeferredRanges(before.rules, positions)
    return newest | ({FRESHNESS: deferred.to_json()} if deferred.rules else {})


def _is_last(source: DeferringSource, newest: Offsets, limit: Limit, until: Offsets, *, moved: bool) -> bool:
    return not moved or source.latest_offsets(newest, limit, until) == newest


@dataclass(slots=True)
class _Advance:
    """The positions of the intervals at the end of one batch. `read` are the intervals that advance."""

    source: DeferringSource
    start: Offsets
    newest: Offsets
    limit: Limit
    before: DeferredRanges
    now: int
    moved: bool
    read: set[int] = field(default_factory=set)

    def position(self, interval: int, *, due: bool) -> Offsets:
        known = self.before.positions.get(interval)
        begin = self.source.deferred(self.start if known is None else known, self.newest)
        at = self.before.read_at(interval)
        if not (due or self.before.is_due(interval, self.now)) or not self.source.behind(begin, self.newest):
            return begin | {_READ_AT: at}
        self.read.add(interval)
        if self.moved and (known is None or not self.source.behind(known, self.start)):
            # The same range as for the other tables, which is then read once for all.
            return self.newest | {_READ_AT: self.now}
        try:
            end = self.source.deferred_end(begin, self.newest, self.limit)
        except PositionLost as error:
            raise lost_for(error, duration(interval)) from error
        return end | {_READ_AT: at if self.source.behind(end, self.newest) else self.now}


def lost_for(error: PositionLost, freshness: str) -> PositionLost:
    """Return the error about records that were deferred for tables with this freshness."""
    error.facts["deferred_by_freshness"] = freshness
    error.hint = f"{error.hint}; records are deferred for up to the freshness, so keep them for longer"
    return error


def deferred_readings(source: DeferringSource, start: Offsets, end: Offsets, tasks: int) -> list[tuple[Range, Reading]]:
    """Return the ranges of a batch in order, each with the tables that it is read for."""
    deferred, before = DeferredRanges.of(end), DeferredRanges.of(start)
    known = before.positions if before.rules == deferred.rules else {}
    plans: list[tuple[list[Range], set[int]]] = [(source.plan(start, end, tasks), {0})]
    for interval, position in deferred.positions.items():
        begin = source.deferred(known.get(interval, start), end)
        ranges = source.plan(begin, position, tasks)
        same = next((intervals for others, intervals in plans if others == ranges), None)
        if same is not None:
            same.add(interval)
        else:
            plans.append((ranges, {interval}))
    new_from: dict[str, int] = {}
    for range_ in plans[0][0]:
        new_from[range_.place] = min(range_.start, new_from.get(range_.place, range_.start))
    found = [
        (range_, Reading(deferred.rules, frozenset(intervals), new_from.get(range_.place)))
        for ranges, intervals in plans
        for range_ in ranges
    ]
    return [(replace(range_, number=number), reading) for number, (range_, reading) in enumerate(found)]


def deferred_positions(offsets: Offsets) -> list[Offsets]:
    """Return the newest position and the positions of all intervals."""
    return [offsets, *DeferredRanges.of(offsets).positions.values()]
