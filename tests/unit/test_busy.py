"""Processes of a run are found and stopped, and go on at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import busy
from tests.waiting import until


@pytest.fixture
def member() -> Iterator[subprocess.Popen[bytes]]:
    """A process that left the tree of this one, as servers do."""
    environment = {**os.environ, busy.MARK: "123456789"}
    with subprocess.Popen(["sleep", "3600"], env=environment, start_new_session=True) as process:
        yield process
        process.kill()


def state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_servers_of_a_run_are_its_members(member: subprocess.Popen[bytes]) -> None:
    until(lambda: busy.members(123456789) == [123456789, member.pid], "the server in the run")


def test_stopped_processes_continue_when_the_busy_time_is_over(member: subprocess.Popen[bytes]) -> None:
    text = "from tests.busy import *; from tests.busy import _ended; signal.signal(signal.SIGTERM, _ended);"
    text += f"import tests.busy; tests.busy.RUNS_S = (0.0, 0.1); disturb({member.pid}, random.Random(1))"
    with subprocess.Popen([sys.executable, "-c", text], cwd=Path(__file__).parents[2]) as stopping:
        until(lambda: state(member.pid) == "T", "a stopped process")
        stopping.send_signal(signal.SIGTERM)
    assert state(member.pid) != "T"
