"""Runs of pipelines in this process, as commands do it while batches are small."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job import build
from penstock.pipelines.job.job import Job
from penstock.pipelines.job.local_run import LocalRun, Run
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder


class SparkNeeded(Exception):
    """The run would start Spark now."""


def run_without_spark(spec: PipelineSpec) -> list[int]:
    """Return the numbers of the batches that were taken. Raise SparkNeeded if a batch is left to Spark."""
    batches: list[int] = []
    run = _local_run(spec)
    run.on_batch = lambda identity, report: batches.append(identity.number)
    run.run()
    return batches


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
