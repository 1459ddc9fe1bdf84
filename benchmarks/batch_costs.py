"""The costs of the batches of a running job by kind of process, measured from outside after each batch.

The first batch pays for the start (a JVM that has not run, imports, empty caches). What comes after it is steady state.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from benchmarks.figures import Figure, record
from benchmarks.processes import members, share_of, used

MEMORY_EVERY = 0.5
KINDS = ("JVM", "workers", "driver")


@dataclass(frozen=True, slots=True)
class Done:
    """Batches done, and what the job had used until then: CPU seconds by kind of process."""

    batches: int
    moment: float
    cpu: Counter[str]


@dataclass(slots=True)
class BatchCosts:
    """Looks at a job with its checkpoint below `home`; `peak` is its memory by kind of process when it held most."""

    home: Path
    done: list[Done] = field(default_factory=list)
    peak: Counter[str] = field(default_factory=Counter)
    _used: dict[int, tuple[str, float]] = field(default_factory=dict)
    _next_memory: float = 0.0

    def spent(self) -> Counter[str]:
        """Until now, by kind. A process that has ended has used what it had when it was seen last."""
        found: Counter[str] = Counter()
        for kind, seconds in self._used.values():
            found[kind] += seconds  # type: ignore[assignment]
        return found

    def look(self, session: int) -> None:
        for pid, seconds in used(session).items():
            with suppress(OSError):
                self._used[pid] = kind_of(pid, session), seconds
        batches = len(committed(self.home))
        if batches > (self.done[-1].batches if self.done else 0):
            self.done.append(Done(batches, monotonic(), self.spent()))
        if monotonic() > self._next_memory:
            self._next_memory = monotonic() + MEMORY_EVERY
            self.peak = max(self.peak, held(session), key=Counter.total)

    def record_steady(self, work: str, goal: float | None) -> None:
        """Record what the batches after the first cost, when there are some."""
        if len(self.done) > 1:
            events, spent, pace = self._steady()
            record(
                Figure(
                    f"{work}: CPU after the first batch", spent.total() / events * 1e6, "us", None, "", goal, less=True
                )
            )
            record(Figure(f"{work}: events after the first batch", pace, "events/s", goal=90_000.0 if goal else None))

    def _steady(self) -> tuple[int, Counter[str], float]:
        """Return the events after the first batch, the CPU seconds by kind of process, and the events per second."""
        first, last = self.done[0], self.done[-1]
        events = events_until(self.home, last.batches) - events_until(self.home, first.batches)
        return events, last.cpu - first.cpu, events / (last.moment - first.moment)

    def lines(self) -> Iterator[str]:
        yield "at peak " + ", ".join(f"{kind} {self.peak[kind] / 2**20:,.0f} MiB" for kind in KINDS)
        if self.done:
            first = self.done[0]
            shares = ", ".join(f"{kind} {first.cpu[kind]:.1f}" for kind in KINDS)
            yield f"until the end of the first batch: {first.cpu.total():.1f} CPU-s ({shares})"
        if len(self.done) < 2:
            return
        events, spent, pace = self._steady()
        shares = ", ".join(f"{kind} {spent[kind] / events * 1e6:.2f}" for kind in KINDS)
        yield (
            f"steady state, {self.done[-1].batches - self.done[0].batches} batches of {events:,} events: "
            f"{spent.total() / events * 1e6:.2f} CPU-us an event ({shares}), {pace:,.0f} events/s"
        )
        for before, after in zip(self.done, self.done[1:], strict=False):
            count = events_until(self.home, after.batches) - events_until(self.home, before.batches)
            each = (after.cpu - before.cpu).total() / max(count, 1) * 1e6
            yield f"  batch {after.batches - 1}: {count:,} events, {each:.2f} us, {after.moment - before.moment:.2f} s"


def committed(home: Path) -> list[Path]:
    return [path for path in home.glob("_penstock/*/commits/*") if path.name.isdigit()]


def events_until(home: Path, batches: int) -> int:
    path = next(home.glob(f"_penstock/*/offsets/{batches - 1}"))
    offsets = json.loads(path.read_text().splitlines()[-1])["offsets"]
    return sum(end for parts in offsets.values() for end in parts.values())


def kind_of(pid: int, session: int) -> str:
    """Workers are forked from one daemon, and the planner of offsets with them."""
    if pid == session:
        return "driver"
    return "JVM" if "java" in Path(f"/proc/{pid}/comm").read_text() else "workers"


def held(session: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for pid in members(session):
        with suppress(OSError):
            found[kind_of(pid, session)] += share_of(Path(f"/proc/{pid}/smaps_rollup"))
    return found
