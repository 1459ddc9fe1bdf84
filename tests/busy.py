"""A machine that is busy: processes of a test run, its servers and its JVMs stand still at random.

    python -m pytest -n 0 --busy 7 tests/integration/mysql/test_silence.py

With `--busy SEED` a process beside the run stops processes of it for 2 to 15 seconds: the run itself, one of the
others, or all of them. A test that fails then, and not without, takes it for granted that others are quick.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "PENSTOCK_BUSY"  # in the environment of all processes of the run, also those that left its tree
STOPS_S, RUNS_S = (2.0, 15.0), (0.1, 3.0)


@contextmanager
def machine(seed: int) -> Iterator[None]:
    """Stop processes of this run at random until the block ends."""
    own = str(os.getpid())
    beside = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    os.environ[MARK] = own
    with subprocess.Popen([sys.executable, "-m", "tests.busy", own, str(seed)], env=beside) as stopping:
        try:
            yield
        finally:
            stopping.terminate()


def members(run: int) -> list[int]:
    """Return the processes of a run, itself first."""
    mark, found = f"{MARK}={run}\0".encode(), [run]
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def send(processes: Sequence[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def disturb(run: int, dice: random.Random) -> None:
    """Stop processes of the run at random and let them continue, until the run or this process ends."""
    stopped: list[int] = []
    try:
        while Path(f"/proc/{run}").exists():
            time.sleep(dice.uniform(*RUNS_S))
            own, *others = members(run)
            stopped = dice.choice([[own], [dice.choice(others or [own])], others, [own, *others]])
            send(stopped, signal.SIGSTOP)
            time.sleep(dice.uniform(*STOPS_S))
            send(stopped, signal.SIGCONT)
    finally:
        send(stopped, signal.SIGCONT)


def _ended(*_: object) -> None:
    sys.exit()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _ended)
    disturb(int(sys.argv[1]), random.Random(int(sys.argv[2])))
