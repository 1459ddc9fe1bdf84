"""A bounded run that has nothing to read: what is left of it needs no Spark."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import PenstockError
from penstock.pipelines.driver.batch_driver import OnBatch
from penstock.pipelines.driver.compaction import due_buckets
from penstock.pipelines.driver.table_upkeep import maintained
from penstock.pipelines.job.caught_up import has_caught_up
from penstock.pipelines.job.job import Job
from penstock.pipelines.ledger.batch_identity import LOOKED_AT, Lineage
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.tasks.batch_result import BatchResult
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.storage.base import store_error

log = logging.getLogger(__name__)


@dataclass(slots=True)
class IdleRun:
    """The run of a job that has caught up. It maintains the tables, as every run does at its end."""

    job: Job
    tables: Sequence[str]
    on_batch: OnBatch | None = None  # never called
    sleep: Callable[[float], None] = time.sleep
    is_resting: bool = False
    has_caught_up: bool = field(default=True, init=False)
    _stopped: bool = field(default=False)

    def run(self) -> None:
        failures = 0
        while True:
            try:
                return self._maintain()
            except (PenstockError, OSError) as error:
                failures += 1
                if not self._may_retry(error, failures):
                    raise
                pause = self.job.retry.pause(failures)
                log.warning("event=retry attempt=%d after=%gs reason=%s", failures, pause, error)
                self.sleep(pause)

    def _maintain(self) -> None:
        for table in self.tables:
            maintained(self.job.warehouse, table)

    def _may_retry(self, error: PenstockError | OSError, failures: int) -> bool:
        passing = store_error(error, "the store failed") if isinstance(error, OSError) else error
        may_pass = isinstance(passing, PenstockError) and passing.retryable
        return may_pass and failures <= self.job.retry.times and not self._stopped

    def stop(self) -> None:
        """Retry nothing. The run ends by itself."""
        self._stopped = True

    def pause(self) -> None:
        """Do nothing: the run ends without a batch."""

    def resume(self) -> None:
        """Do nothing."""


def idle_run(job: Job, folder: CheckpointFolder) -> IdleRun | None:
    """Return the run of the job if it is bounded and has nothing to do that needs Spark, otherwise None.

    Checks what the start of a query checks. An error is left to that start, which reports it.
    """
    recovery = job.recovery
    if not job.trigger.until_caught_up or recovery.reread_all or recovery.reread or folder.finished_offsets() is None:
        return None
    try:
        # Parked tables end the run with an error, after their batches were read again if the user wants it.
        if job.parking().tables:
            return None
        with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
            driver = job.driver(Path(scratch), 1, 1, _no_tasks)
            # The reader and not the source: it also knows what is deferred.
            if not has_caught_up(driver.reader, folder, job.trigger.limit):
                return None
        tables = sorted(Lineage.of(job.warehouse, driver.targets.schemas, job.name, LOOKED_AT).newest)
        if job.background.compacts and any(due_buckets(job.warehouse, table) for table in tables):
            return None
    except (PenstockError, OSError):
        return None
    return IdleRun(job, tables)


def _no_tasks(reader: BatchReader, number: int, inputs: Sequence[TaskInput]) -> BatchResult:
    raise AssertionError("a run without batches reads nothing again")
