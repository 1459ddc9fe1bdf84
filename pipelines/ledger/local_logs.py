"""A local copy of the logs of a checkpoint in an object store: Spark writes the copy, and this module the store.

Spark would write the store through Hadoop, which needs another client for each kind of store. Penstock's own client
creates a file only if it does not exist, so that a second driver with the checkpoint ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger.batch_logs import COMMITS, OFFSETS, QUERY, BatchLogs
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.storage.open import is_object_store


@dataclass(frozen=True, slots=True)
class LocalLogs:
    """The logs of a checkpoint, and the folder with their copy."""

    logs: BatchLogs
    path: Path

    @classmethod
    def of(cls, checkpoint: CheckpointFolder, path: Path) -> LocalLogs | None:
        """Return the copy of a checkpoint in an object store; None if Spark writes the checkpoint itself."""
        return cls(checkpoint.batches, path) if is_object_store(checkpoint.location) else None

    def fill(self) -> None:
        """Copy what a query reads when it starts: its id, and its two newest batches."""
        self.logs.create_query()
        self._copy(QUERY)
        for log in (OFFSETS, COMMITS):
            for number in self.logs.numbers(log)[-2:]:
                self._copy(f"{log}/{number}")

    def _copy(self, name: str) -> None:
        content = self.logs.folder.read(name)
        if content is not None:
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(content)

    def keep_plan(self, number: int) -> None:
        """Store the end of a batch that Spark has planned, before the batch is committed.

        Raise CheckpointInUse if another process has planned this batch meanwhile.
        """
        name = f"{OFFSETS}/{number}"
        if not self.logs.folder.create(name, (self.path / name).read_bytes()):
            raise CheckpointInUse.by_another(self.logs.folder.location)

    def keep_finish(self, number: int) -> None:
        """Store that the batch is in the tables. Spark notes it in the copy a little later."""
        self.logs.finish(number)
