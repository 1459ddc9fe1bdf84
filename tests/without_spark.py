"""Runs of pipelines in this process, as commands do it while batches are small."""

from __future__ import annotations

import itertools

import pytest

from penstock.errors import PenstockError
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import OnBatch
from penstock.pipelines.job import build, local_batches
from penstock.pipelines.job.job import Job
from penstock.pipelines.job.local_run import LocalRun
from penstock.pipelines.job.run_control import Run
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.read import BatchReader


class SparkNeeded(Exception):
    """The run would start Spark now."""


def run_without_spark(spec: PipelineSpec) -> list[int]:
    """Return the numbers of the batches that were taken. Raise SparkNeeded if a batch is left to Spark."""
    batches: list[int] = []
    run = _local_run(spec)
    run.on_batch = lambda identity, report: batches.append(identity.number)
    run.run()
    return batches


def run_here(spec: PipelineSpec, on_batch: OnBatch | None = None, most: int | None = None) -> None:
    """Run without Spark, also where a user's run would start it: tables that are read again, batches of any size.

    With `most`, the run is stopped after so many batches, or when it would wait for records.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalRun, "_check_start", LocalRun._next_batch)
        patch.setattr(local_batches, "TIMES_SMALL", 10**9)
        patch.setattr(BatchReader, "leaves_much", lambda *_: False)
        run, count = _local_run(spec), itertools.count(1)

        def taken(identity: BatchIdentity, report: BatchReport) -> None:
            if on_batch is not None:
                on_batch(identity, report)
            if next(count) == most:
                run.stop()

        run.on_batch = taken
        if most is not None:
            run.sleep = lambda _: run.stop()
        run.run()


def is_idle(spec: PipelineSpec) -> bool:
    """Return whether a run would find nothing to do."""
    run = _local_run(spec)
    run.takes_batches = False
    try:
        run.run()
    except (SparkNeeded, PenstockError):
        return False
    return True


def _local_run(spec: PipelineSpec) -> LocalRun:
    def with_spark(job: Job) -> Run:
        raise SparkNeeded

    return LocalRun(build.ready(spec), CheckpointFolder(spec.checkpoint), with_spark)
