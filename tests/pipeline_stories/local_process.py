"""A run without Spark on a simulated store, and the run on Spark to which it leaves what is not for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from unittest.mock import patch

from penstock.pipelines.driver.batch_driver import OnBatch
from penstock.pipelines.driver.local_runner import write_rows
from penstock.pipelines.job import build, local_batches
from penstock.pipelines.job.job import Job
from penstock.pipelines.job.local_run import LocalRun
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.tasks.batch_result import BatchResult
from tests.pipeline_stories.process import Driver, damaged


@dataclass
class LeftRun:
    """What `LocalRun` starts when it needs Spark."""

    driver: Driver
    job: Job
    torn: str | None
    on_batch: OnBatch | None = None
    has_caught_up: bool = False
    is_resting: bool = False

    def run(self) -> None:
        with self.driver.started(self.job) as driver:
            driver.run(self.torn)
        self.has_caught_up = True

    def stop(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


@dataclass
class LocalProcess:
    """A run without Spark. `before_commit` is called when the files of a batch are written and nothing is committed."""

    driver: Driver  # of the run on Spark, with the description of this one
    before_commit: Callable[[], None]
    torn: str | None = None  # the table whose files are damaged at first
    started: bool = field(default=False, init=False)

    def run(self) -> None:
        job, disk = build.ready(self.driver.spec), self.driver.log.disk
        folder = CheckpointFolder(self.driver.spec.checkpoint)
        with patch.object(local_batches, "write_rows", self._written):
            run = LocalRun(job, folder, self._with_spark, on_batch=self.driver.on_batch)
            run.sleep = lambda seconds: disk.clock.pass_(int(seconds * 1000))
            run.run()

    def _written(self, *arguments: object) -> BatchResult:
        with damaged(self.torn):
            result = write_rows(*arguments)  # type: ignore[arg-type]  # those of the caller
        self.torn = None
        self.before_commit()
        return result

    def _with_spark(self, job: Job) -> LeftRun:
        return LeftRun(self.driver, job, self.torn)
