"""The executor of actions in CALL and DELETE: their units run in tasks of the statement's session.

The process that answers a request of the catalog has no session. It writes the units into a private file on the
driver's machine, and asks the driver, by a local socket, for a job that reads them: a task reads its units by running
them, and its rows are the results.
"""

from __future__ import annotations

import pickle
import socket
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.spark_source.unit_results import FOLDER_PREFIX, UnitGroup
from penstock.table.errors import WorkerEnded
from penstock.table.operations.executor import OfUnit, Result, Work, dealt

# More tasks than slots, so that slots that end early take over the rest.
_TASKS_PER_SLOT = 4
_NUMBER = struct.Struct(">i")
_LENGTH = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class SessionUnits:
    """Runs units in jobs of the session whose driver listens on a local port. Results come when a job has ended.

    A task that fails, or whose executor is lost, runs again with all its units; files of the first attempt are orphans.
    """

    port: int
    token: str
    slots: int

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        """Yield the results when the job has ended. When it fails there are none: files of other units are orphans."""
        if not units:
            return
        mark = ErrorMark()
        groups = dealt(units, self.slots * _TASKS_PER_SLOT)
        with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as folder:
            path = Path(folder) / "units"
            path.touch(mode=0o600)
            path.write_bytes(pickle.dumps([UnitGroup(pickle.dumps((work, group)), mark) for group in groups]))
            results = self._asked(str(path), mark)
        for body in results:
            yield pickle.loads(body)  # noqa: S301 -- pickled by the task

    def _asked(self, path: str, mark: ErrorMark) -> list[bytes]:
        """Return the rows of the job with these units; the error of a unit as it was raised."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection, connection.makefile("rb") as answer:
            connection.sendall(
                b"".join(_LENGTH.pack(len(part)) + part for part in (self.token.encode(), path.encode()))
            )
            count = _number(answer)
            bodies = [_exactly(answer, _number(answer)) for _ in range(count if count >= 0 else 1)]
        if count >= 0:
            return bodies
        failure = bodies[0].decode()
        raise mark.recovered(RuntimeError(failure)) or WorkerEnded(
            "the Spark job of the action failed",
            reason=failure.strip().splitlines()[0] if failure.strip() else None,
            hint="the driver's log has the whole error; files of this action that were written are orphans",
        )


def _number(answer: IO[bytes]) -> int:
    return int(_NUMBER.unpack(_exactly(answer, _NUMBER.size))[0])


def _exactly(answer: IO[bytes], length: int) -> bytes:
    body = answer.read(length)
    if len(body) < length:
        raise WorkerEnded("the driver ended the connection of an action", hint="run the statement again")
    return body
