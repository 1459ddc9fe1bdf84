"""The logs of a query's batches in its checkpoint, as Spark writes them: which are planned and which are finished.

Batches that run without Spark are written to the same logs, so either way of running continues where the other ended.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import CheckpointDamaged
from penstock.ingest.source import Offsets
from penstock.pipelines.errors import CheckpointInUse
from penstock.storage.state_folder import StateFolder

OFFSETS, COMMITS, QUERY = "offsets", "commits", "metadata"
_VERSION = b"v1"  # the first line of each file of both logs
_FINISHED = b'v1\n{"nextBatchWatermarkMs":0}'
# Spark keeps as many batches (spark.sql.streaming.minBatchesToRetain).
_KEPT = 100


@dataclass(frozen=True, slots=True)
class CheckpointProgress:
    """`planned` is the newest batch that was planned, `done` the newest finished one."""

    planned: int | None = None
    done: int | None = None
    offsets: Offsets | None = None  # the end of the newest finished batch


@dataclass(frozen=True, slots=True)
class NextBatch:
    """The batch that follows the newest finished one.

    `start` is None for the first batch, which begins where the source begins; `end` is None if it is not planned yet.
    """

    number: int
    start: Offsets | None
    end: Offsets | None = None


@dataclass(frozen=True, slots=True)
class BatchLogs:
    """The offsets and commits of a checkpoint, and the id of its query."""

    folder: StateFolder
    now: Callable[[], float] = time.time

    @property
    def is_new(self) -> bool:
        """True if no batch was ever planned with this checkpoint."""
        return self.last_planned is None

    @property
    def last_planned(self) -> int | None:
        """Return the newest batch that was planned, None before the first."""
        return max(self.numbers(OFFSETS), default=None)

    @property
    def planned_offsets(self) -> Offsets | None:
        """Return the end of the newest batch that was planned, None before the first."""
        number = self.last_planned
        return None if number is None else self._offsets(number)

    def progress(self) -> CheckpointProgress:
        done = max(self.numbers(COMMITS), default=None)
        return CheckpointProgress(self.last_planned, done, None if done is None else self._offsets(done))

    def next_batch(self) -> NextBatch | None:
        """Return the batch that Spark would run next, None if the files are not as Spark writes them.

        Spark then reports the damage.
        """
        try:
            found, query = self._next_batch(), self.query()
        except (ValueError, TypeError, CheckpointDamaged):
            return None
        # A query that planned nothing may have no id yet.
        return found if query or (found is not None and found.number == 0 and found.end is None) else None

    def _next_batch(self) -> NextBatch | None:
        last = self.progress()
        number = 0 if last.done is None else last.done + 1
        if last.planned not in {number, number - 1 if number else None}:
            return None
        planned = self._offsets(number) if last.planned == number else None
        if (last.planned == number) != (planned is not None) or (last.offsets is None) != (number == 0):
            return None
        finished = [(log, number - 1) for log in (OFFSETS, COMMITS) if number]
        files = finished + ([(OFFSETS, number)] if planned is not None else [])
        is_known = all(self._read(log, file).partition(b"\n")[0] == _VERSION for log, file in files)
        return NextBatch(number, last.offsets, planned) if is_known else None

    def query(self) -> str | None:
        """Return the id of the query, None before the first start."""
        content = self.folder.read(QUERY)
        found = None if content is None else json.loads(content)
        return str(found["id"]) if isinstance(found, dict) and found.get("id") else None

    def create_query(self) -> str:
        """Return the id of the query. Stores a new one at the first start."""
        known = self.query()
        if known is not None:
            return known
        created = str(uuid.uuid4())
        self._create(QUERY, json.dumps({"id": created}, separators=(",", ":")).encode())
        return created

    def plan(self, number: int, end: Offsets) -> None:
        """Store the end of a batch before it is read, so that a repetition reads the same.

        Raises CheckpointInUse if another process has planned this batch meanwhile.
        """
        metadata = self._metadata(number - 1) | {"batchTimestampMs": int(self.now() * 1000)}
        # As PySpark writes offsets: Spark compares them as text.
        lines = (_VERSION.decode(), json.dumps(metadata, separators=(",", ":")), json.dumps(end))
        self._create(f"{OFFSETS}/{number}", "\n".join(lines).encode())

    def finish(self, number: int) -> None:
        """Note that the batch is in the tables, and forget batches as old as the ones that Spark forgets."""
        self._create(f"{COMMITS}/{number}", _FINISHED)
        if number < _KEPT:
            return
        for log in (OFFSETS, COMMITS):
            self.folder.below(log).delete(str(number - _KEPT))
            self._delete_checksum(log, str(number - _KEPT))

    def _metadata(self, number: int) -> dict[str, Any]:
        """Return the settings that Spark stored with a batch: it uses them again when it continues."""
        content = self.folder.below(OFFSETS).read(str(number)) if number >= 0 else None
        if content is None:
            return {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
        return dict(json.loads(content.split(b"\n")[1]))

    def _create(self, name: str, content: bytes) -> None:
        folder, _, file = name.rpartition("/")
        # It would be compared with a checksum that a crash left behind without its file.
        self._delete_checksum(folder, file)
        if not self.folder.create(name, content):
            raise CheckpointInUse.by_another(self.folder.location)

    def _delete_checksum(self, folder: str, file: str) -> None:
        """Delete the checksum that Hadoop's local file system writes beside a file. Object stores have none."""
        if "://" not in self.folder.location or self.folder.location.startswith("file:"):
            (self.folder.below(folder) if folder else self.folder).delete(f".{file}.crc")

    def _offsets(self, number: int) -> Offsets | None:
        content = self.folder.below(OFFSETS).read(str(number))
        if content is None:
            return None
        # Spark's offset log has a line with its version, a line of metadata, and one line per source, here a single
        # one. A source without an offset is written as "-". The last line of a file that was cut may be the metadata.
        lines = content.rstrip(b"\n").split(b"\n")
        try:
            return None if lines[2:] == [b"-"] else dict(json.loads(lines[2]))
        except (IndexError, ValueError, TypeError) as error:
            raise self._damaged(number, content) from error

    def _damaged(self, number: int, content: bytes) -> CheckpointDamaged:
        return self.folder.damaged(
            f"{OFFSETS}/{number}",
            content,
            "if the batch of this number is in no table yet, delete the file, and it is planned again;  "
            "--checkpoint NEW --resume-from-tables  continues at the position of the tables (not from files, MySQL or "
            "MariaDB),  --checkpoint NEW --accept-replay  reads everything again",
        )

    def _read(self, log: str, number: int) -> bytes:
        return self.folder.below(log).read(str(number)) or b""

    def numbers(self, log: str) -> list[int]:
        """Return the batches of one of the logs, in order."""
        return sorted(numbered(self.folder.below(log)))


def numbered(folder: StateFolder, suffix: str = "") -> list[int]:
    """Return the numbers that files of the folder have as names."""
    # Spark's folders also contain checksums and temporary files (.5.crc, .5.UUID.tmp), which are not batches.
    names = (name.removesuffix(suffix) for name in folder.names() if name.endswith(suffix))
    return [int(name) for name in names if name.isdecimal()]
