"""The costs of a command and all its descendants: CPU seconds, wall seconds, peak memory that is theirs."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, record

LOOK_EVERY = 0.5
TICK = 0.1
PR_SET_CHILD_SUBREAPER = 36
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: float
    wall: float
    peak: int
    driver: int = 0  # the peak of the first process, as the system counts it (ru_maxrss)
    worker: int = 0  # the same of the largest other Python process, which runs tasks

    def __str__(self) -> str:
        return f"{self.cpu:.1f} CPU-s, {self.wall:.1f} s, peak {self.peak / 2**30:.2f} GiB"


def parts(cost: Cost) -> list[tuple[str, str, float]]:
    """Return the figures of a whole job with their names and units."""
    return [("CPU", "CPU-s", cost.cpu), ("wall", "s", cost.wall), ("peak memory", "GiB", cost.peak / 2**30)]


def record_bounds(work: str, cost: Cost) -> None:
    """Record the peaks of the driver's and of the tasks' Python processes, which a large table must not raise."""
    for what, size in (("peak of the driver's Python", cost.driver), ("peak of the largest task", cost.worker)):
        record(Figure(f"{work}: {what}", size / 2**20, "MiB", less=True))


def record_costs(work: str, ours: Cost, peer: Cost | None, peer_name: str, *, peak_goal: float | None = None) -> None:
    """Record the CPU, the wall time and the memory of a whole job beside those of a peer."""
    beside = {what: value for what, _, value in parts(peer)} if peer else {}
    for what, unit, value in parts(ours):
        goal = peak_goal if what == "peak memory" else None
        record(Figure(f"{work}: {what}", value, unit, beside.get(what), peer_name, goal, less=True))


class CommandFailed(Exception):
    """A command that ended otherwise than it should; the end of what it said is the message."""


def cost_of(
    command: Sequence[str | Path],
    log: Path,
    *,
    until: Callable[[], bool] | None = None,
    look: Callable[[int], None] = lambda session: None,
    environment: Mapping[str, str] | None = None,
) -> Cost:
    """Run a command to its end, or until `until` says so and it is asked to go. `look` sees its session meanwhile."""
    adopt_orphans()
    started, peak, driver, worker = time.monotonic(), 0, 0, 0
    spent: dict[int, float] = {}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=True, env=os.environ | dict(environment or {})
        )
    requested, next_look = False, 0.0
    try:
        while process.poll() is None:
            if time.monotonic() > next_look:
                next_look = time.monotonic() + LOOK_EVERY
                peak = max(peak, memory_of(process.pid))
                driver, worker = max(driver, peak_of(process.pid)), max(worker, largest_worker(process.pid))
            spent |= used(process.pid)
            look(process.pid)
            if until is not None and not requested and until():
                requested, wall = True, time.monotonic() - started
                os.killpg(process.pid, signal.SIGTERM)
            time.sleep(TICK)
    finally:
        if process.poll() is None:  # whoever looks is stopped: what it looks at must not go on
            os.killpg(process.pid, signal.SIGKILL)
    ended = time.monotonic() - started
    spent |= reaped(process.pid)
    if process.returncode and not requested:
        raise CommandFailed(log.read_text(errors="replace")[-4000:])
    return Cost(sum(spent.values()), wall if requested else ended, peak, driver, worker)


def adopt_orphans() -> None:
    """Be the parent of descendants whose own has gone: a JVM that outlives the process that started it."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "orphans cannot be adopted, so their CPU time cannot be measured")


def reaped(session: int) -> dict[int, float]:
    """Wait for what is left of a session, however it came to be ours. What each process used in all."""
    found = {}
    while left := members(session):
        for pid in left:
            with suppress(OSError):  # of another parent, which waits for it
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                found[pid] = seconds_of(pid)
                os.waitpid(pid, 0)
        time.sleep(LOOK_EVERY)
    return found


def used(session: int) -> dict[int, float]:
    """The CPU seconds of each process that runs.

    Read from each process: nobody waits for the end of Spark's Python workers, so no parent process gets their times.
    """
    found = {}
    for pid in members(session):
        with suppress(OSError):
            found[pid] = seconds_of(pid)
    return found


def seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS


def members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it may end while we look
                if os.getsid(int(entry.name)) == session:
                    found.append(int(entry.name))
    return found


def memory_of(session: int) -> int:
    """Bytes private to the processes of a session, and their share of what they share with others."""
    total = 0
    for pid in members(session):
        with suppress(OSError):
            total += share_of(Path(f"/proc/{pid}/smaps_rollup"))
    return total


def largest_worker(session: int) -> int:
    """The peak of the largest Python process of a session, its leader apart."""
    sizes = [0]
    for pid in members(session):
        with suppress(OSError):
            if pid != session and Path(f"/proc/{pid}/comm").read_text().startswith("python"):
                sizes.append(peak_of(pid))
    return max(sizes)


def share_of(rollup: Path) -> int:
    return _bytes(rollup, "Pss:")


def peak_of(pid: int) -> int:
    """The most bytes that a process had in memory so far; 0 for one that has ended."""
    with suppress(OSError):
        return _bytes(Path(f"/proc/{pid}/status"), "VmHWM:")
    return 0


def _bytes(file: Path, name: str) -> int:
    lines = file.read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
