"""The process of a driver: whether it runs, as far as this machine can see, and the check that no second one does."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder

ALIVE_SECONDS = 60.0  # a driver that has not written its status for longer may be gone


def is_alive(pid: int) -> bool:
    """Return whether the process runs. One that has ended and that its parent has not waited for yet does not."""
    with suppress(OSError):
        # The name of a process may contain anything, parentheses too.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def has_ended(driver: Mapping[str, Any]) -> bool:
    """Return whether the driver that wrote this status ran on this machine and its process is gone."""
    pid = int(driver.get("pid", 0))
    return pid != 0 and driver.get("host") == socket.gethostname() and not is_alive(pid)


def is_silent(driver: Mapping[str, Any], now_millis: int) -> bool:
    """Return whether the driver that wrote this status has not written it for so long that it may be gone."""
    heard = (now_millis - int(driver.get("heard_millis", 0))) / 1000
    return heard >= max(ALIVE_SECONDS, 10 * float(driver.get("trigger_seconds", 0)))


def refuse_second_driver(
    folder: CheckpointFolder, is_alive: Callable[[int], bool] = is_alive, now: Callable[[], float] = time.time
) -> None:
    """Raise CheckpointInUse if a driver on this machine wrote its status just now and still runs.

    Nothing is concluded about drivers on other machines: the successor of one that died must start at once, and of two
    that run, Spark's log of offsets stops one.
    """
    last = folder.status()
    if last is None or last.get("state") not in {"running", "pausing", "paused"}:
        return
    pid, heard = int(last.get("pid", 0)), int(last.get("heard_millis", 0)) / 1000
    ours = last.get("host") == socket.gethostname() and pid not in {0, os.getpid()}
    if ours and now() - heard < ALIVE_SECONDS and is_alive(pid):
        raise CheckpointInUse(
            "another process is running this pipeline",
            process=pid,
            host=last["host"],
            checkpoint=folder.location,
            hint=(
                "stop it after its batch with  penstock signal PIPELINE stop ; a pipeline with another name has "
                "its own checkpoint"
            ),
        )
