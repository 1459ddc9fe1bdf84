"""Figures that a benchmark measures, one JSON line each, for `python -m benchmarks.all`.

A benchmark prints for people, and calls `record` for each figure. Without the variable that names the file, as when a
benchmark is run by hand, nothing is written.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "PENSTOCK_FIGURES"


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of a table of results: the work, our figure, that of a peer, and the goal."""

    work: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    goal: float | None = None
    goal_of_ratio: bool = False  # the goal is one of the ratio, not of our figure
    less: bool = False  # the smaller figure is the better one: times, memory

    @property
    def ratio(self) -> float | None:
        """How many times better our figure is than the peer's."""
        if not self.peer or not self.ours:
            return None
        return self.peer / self.ours if self.less else self.ours / self.peer

    @property
    def reached(self) -> bool | None:
        measured = self.ratio if self.goal_of_ratio else self.ours
        if self.goal is None or measured is None:
            return None
        return measured <= self.goal if self.less and not self.goal_of_ratio else measured >= self.goal


def record(figure: Figure) -> None:
    path = os.environ.get(VARIABLE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(figure)) + "\n")


def recorded(path: Path) -> list[Figure]:
    """Return the figures of a file, in the order in which they were recorded."""
    if not path.exists():
        return []
    return [Figure(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
