"""The freshness of tables: the interval between commits for each source table, by the routes of a pipeline.

Tables with an interval are deferred: batches in between read their records for other tables only, and a batch in which
the interval is due reads the records again, for these tables. `deferred_ranges.py` has how far each was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.table_pattern import TablePattern

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))


def duration(millis: int) -> str:
    """Return an interval as pipeline files write it, such as `10m`."""
    size, unit = next((size, unit) for size, unit in _UNITS if millis % size == 0)
    return f"{millis // size}{unit}"


@dataclass(frozen=True, slots=True)
class FreshnessRules:
    """The intervals of source tables in milliseconds, 0 for tables that are committed in every batch.

    `routes` are patterns of source tables; the first one that matches a table applies. `others` is the interval of
    tables that match no route.
    """

    routes: tuple[tuple[str, int], ...] = ()
    others: int = 0

    @classmethod
    def of(cls, routes: Iterable[tuple[str, int]], others: int = 0) -> FreshnessRules:
        """Return the rules in their shortest form, so that equal rules are equal objects."""
        kept = list(routes)
        while kept and kept[-1][1] == others:
            kept.pop()
        rules = cls(tuple(kept), others)
        return rules if rules.intervals else NO_FRESHNESS

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> FreshnessRules:
        return cls(tuple((pattern, interval) for pattern, interval in content["routes"]), content["others"])

    def to_json(self) -> dict[str, Any]:
        return {"routes": [list(route) for route in self.routes], "others": self.others}

    @property
    def intervals(self) -> tuple[int, ...]:
        """The intervals of tables that are deferred."""
        return tuple(sorted({self.others, *(interval for _, interval in self.routes)} - {0}))

    def interval(self, database: str | None, table: str | None) -> int:
        """Return the interval of a source table; of messages that name no table it is 0."""
        return 0 if table is None else _interval(self, database, table)

    def __bool__(self) -> bool:
        return bool(self.intervals)


NO_FRESHNESS = FreshnessRules()


@lru_cache(maxsize=10_000)
def _interval(rules: FreshnessRules, database: str | None, table: str) -> int:
    patterns = _patterns(rules)
    return next((interval for pattern, interval in patterns if pattern.match(database, table)), rules.others)


@lru_cache(maxsize=16)
def _patterns(rules: FreshnessRules) -> tuple[tuple[TablePattern, int], ...]:
    return tuple((TablePattern.of(text), interval) for text, interval in rules.routes)


@dataclass(frozen=True, slots=True)
class Reading:
    """The tables that a range is read for, by their intervals.

    `new_from` is where the records begin, in the range's place, that the same batch reads for the first time for other
    tables; None if there are none.
    """

    rules: FreshnessRules
    intervals: frozenset[int]
    new_from: int | None = None

    def takes(self, database: str | None, table: str | None) -> bool:
        return self.rules.interval(database, table) in self.intervals

    @property
    def is_again(self) -> bool:
        """True if the records are read for other tables too, by another range or an earlier batch.

        Then the other reading counts the messages, and the unreadable ones among them.
        """
        return 0 not in self.intervals

    @property
    def text(self) -> str:
        """The intervals for people."""
        return ", ".join(duration(interval) for interval in sorted(self.intervals) if interval)
