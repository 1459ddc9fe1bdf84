"""A driver that dies at a named point: SIGKILL for itself and for every process it started.

    python -m tests.chaos.driver POINT NTH COMMAND...      POINT `none` never comes; NTH counts from 1

The points are between lines of the product, not in it: here its functions are wrapped before the command runs. With
WAIT_FOR in the environment the driver does not die there, but waits until that file is there: a driver that others take
for dead. With ON_HOST it says that it runs on another machine.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.job import local_batches
from penstock.pipelines.job.foreach_batch import BatchSink
from penstock.pipelines.ledger.batch_logs import BatchLogs
from penstock.table.commit import committer
from penstock.table.maintenance import snapshot_expiry as expire

_calls = itertools.count(1)
_counting = threading.Lock()


def session_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])


def kill_session(leader: int) -> None:
    """Everything that a process started as the leader of a session has started, and last itself."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != leader and session_of(int(entry.name)) == leader:
                os.kill(int(entry.name), signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            continue
    os.kill(leader, signal.SIGKILL)


def come_to(nth: int) -> None:
    """The point is reached; the `nth` time it is the last thing this driver does."""
    with _counting:
        if next(_calls) != nth:
            return
    wanted = os.environ.get("WAIT_FOR")
    if wanted is None:
        kill_session(os.getsid(0))
    while wanted and not Path(wanted).exists():
        time.sleep(0.1)


def before(owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> Callable[[int], None]:
    """Return the point before the calls of a function that `when` accepts.

    The function is looked up when this module is imported: if it was renamed, the collection of the tests fails.
    """
    wrapped = getattr(owner, name)

    def point(nth: int) -> None:
        def call(*given: Any, **named: Any) -> Any:
            if when(*given, **named):
                come_to(nth)
            return wrapped(*given, **named)

        setattr(owner, name, call)

    return point


def between_two_tables(nth: int) -> None:
    """One table of the batch has it; the others wait until the driver is dead."""
    commit = committer.Committer.commit
    first: dict[int, str] = {}

    def dying(self: committer.Committer, messages: Any, identifier: int, **named: Any) -> Any:
        if self.user.endswith("-compact"):
            return commit(self, messages, identifier, **named)
        with _counting:
            leads = first.setdefault(identifier, self.store.name) == self.store.name
        if not leads and len(first) == nth:
            time.sleep(3600)  # it is killed with the others
        done = commit(self, messages, identifier, **named)
        if leads:
            come_to(nth)
        return done

    committer.Committer.commit = dying  # type: ignore[method-assign, assignment]


by_spark, by_the_driver = before(BatchSink, "__call__"), before(local_batches, "write_rows")


def offsets_logged(nth: int) -> None:
    """Whichever of the two runs the batch."""
    by_spark(nth)
    by_the_driver(nth)


POINTS: dict[str, Callable[[int], None]] = {
    "none": lambda nth: None,
    "offsets logged": offsets_logged,
    "files written": before(BatchDriver, "take"),
    "between two tables": between_two_tables,
    # The rows of the batch are committed, the result of its compaction is not: `second` marks the COMPACT half.
    "inside a compaction": before(committer.Committer, "_commit_once", lambda *_, second=False, **__: second),
    # Snapshots are gone, their files are not yet.
    "inside expiry": before(expire, "sweep"),
}
# The tables have the batch, and the checkpoint does not say so yet. Under Spark its JVM writes the checkpoint.
WITHOUT_SPARK = {"batch not finished": before(BatchLogs, "finish")}


if __name__ == "__main__":
    from penstock.pipelines.commands.main import main

    if host := os.environ.get("ON_HOST"):
        socket.gethostname = lambda: host
    (POINTS | WITHOUT_SPARK)[sys.argv[1]](int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
