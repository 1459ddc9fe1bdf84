"""The state that the lookups of one range share: the planned snapshots, and the snapshots that were used."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class LookupRun:
    """The lookups of one range.

    `snapshots` are those to look up at, with their marks; 0 if the mark is not known. `later` are those in which rows
    were found for keys that had been missing. `used` has the first and the last by table.
    """

    snapshots: dict[str, tuple[int, int]] = field(default_factory=dict)
    later: dict[str, tuple[int, int]] = field(default_factory=dict)
    used: dict[str, tuple[int, int]] = field(default_factory=dict)
    missed: int = 0
    attempts: Counter[str] = field(default_factory=Counter)

    def note(self, table: str, snapshot: int) -> None:
        """Record that rows of a snapshot were used."""
        first, last = self.used.get(table, (snapshot, snapshot))
        self.used[table] = (min(first, snapshot), max(last, snapshot))
