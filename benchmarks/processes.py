"""What a command and all its descendants cost: CPU seconds, wall seconds, peak memory that is theirs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOOK_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: float
    wall: float
    peak: int

    def __str__(self) -> str:
        return f"{self.cpu:.1f} CPU-s, {self.wall:.1f} s, peak {self.peak / 2**30:.2f} GiB"


class CommandFailed(Exception):
    """A command that ended otherwise than it should; the end of what it said is the message."""


def cost_of(
    command: Sequence[str | Path],
    log: Path,
    *,
    until: Callable[[], bool] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Cost:
    """Run a command to its end, or until `until` says so and it is asked to go."""
    started, peak = time.monotonic(), 0
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=True, env=os.environ | dict(environment or {})
        )
    asked = False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, memory_of(process.pid))
        if until is not None and not asked and until():
            asked, wall = True, time.monotonic() - started
            os.killpg(process.pid, signal.SIGTERM)
        time.sleep(LOOK_EVERY)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not asked:
        raise CommandFailed(log.read_text(errors="replace")[-4000:])
    return Cost(usage.ru_utime + usage.ru_stime, wall if asked else time.monotonic() - started, peak)


def memory_of(session: int) -> int:
    """Bytes private to the processes of a session, and their share of what they share with others."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):  # it may end while we look
                if os.getsid(int(entry.name)) == session:
                    total += share_of(entry / "smaps_rollup")
    return total


def share_of(rollup: Path) -> int:
    lines = rollup.read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
