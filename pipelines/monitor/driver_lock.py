"""One driver a checkpoint: a second one is told so before it starts anything."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.driver_process import is_alive
from penstock.pipelines.monitor.status import ALIVE_SECONDS


def refuse_second_driver(
    folder: CheckpointFolder, is_alive: Callable[[int], bool] = is_alive, now: Callable[[], float] = time.time
) -> None:
    """CheckpointInUse where a driver of this machine was heard of just now and lives.

    Drivers of other machines are not judged by their silence: one that died there is to be followed at once, and two
    that live are told apart by Spark's log of offsets.
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
