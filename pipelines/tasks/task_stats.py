"""Statistics of a batch for monitoring, which tasks send to the driver."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

Part = TypeVar("Part")
Seconds: TypeAlias = defaultdict[str, float]  # by stage


def no_seconds() -> Seconds:
    return defaultdict(float)


@dataclass(slots=True)
class TaskStats:
    """Statistics of a batch for monitoring, by table unless another key is named."""

    seconds: Seconds = field(default_factory=no_seconds)  # by stage, summed over tasks
    files: dict[str, int] = field(default_factory=dict)  # in the fullest bucket that was written
    runs: dict[str, int] = field(default_factory=dict)  # sorted runs in the bucket that has most
    bytes: Counter[str] = field(default_factory=Counter)  # of new files
    merged: Counter[str] = field(default_factory=Counter)  # rows of new files, after changes of one key were merged
    retries: Counter[str] = field(default_factory=Counter)
    conflicts: Counter[str] = field(default_factory=Counter)
    replays: int = 0
    memory: int = 0  # the peak memory of a task's process
    parked: dict[str, str] = field(default_factory=dict)  # tables that failed, and why
    left_out: dict[str, str] = field(default_factory=dict)  # tables that cannot be created, and why

    def add(self, other: TaskStats) -> None:
        self.spend(other.seconds)
        for mine, others in (
            (self.bytes, other.bytes),
            (self.merged, other.merged),
            (self.retries, other.retries),
            (self.conflicts, other.conflicts),
        ):
            mine.update(others)
        for most, more in ((self.files, other.files), (self.runs, other.runs)):
            # Not a sum: these are the figures of the fullest bucket.
            most |= {table: max(count, most.get(table, 0)) for table, count in more.items()}
        self.replays += other.replays
        self.memory = max(self.memory, other.memory)
        self.parked |= other.parked

    def spend(self, seconds: Seconds) -> None:
        for stage, spent in seconds.items():
            self.seconds[stage] += spent

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - began


def timed(parts: Iterator[Part], seconds: Seconds, stage: str) -> Iterator[Part]:
    """Yield the same parts and add the time spent producing them, not the time spent by the consumer."""
    while True:
        began = time.perf_counter()
        # None ends the iteration: no part is None.
        part = next(parts, None)
        seconds[stage] += time.perf_counter() - began
        if part is None:
            return
        yield part
