"""What Spark says of a query that ended, in our words."""

from __future__ import annotations

from pyspark.errors import PySparkException

from penstock.ingest.carried import recovered
from penstock.pipelines.run.errors import CheckpointInUse, WorkerLate


def told_by_spark(error: PySparkException, failure: BaseException | None, checkpoint: str) -> BaseException:
    """What really happened: an error that a task or the planner sent, the sink's own, one of those below, else
    Spark's."""
    return recovered(error) or failure or _late(error) or _in_use(error, checkpoint) or error


def _late(error: PySparkException) -> WorkerLate | None:
    if "Python worker failed to connect back" not in str(error):
        return None
    return WorkerLate(
        "Spark started a Python worker that did not answer within ten seconds",
        hint="give the driver's machine less to do, or more cores; nothing was written, so run again",
    )


def _in_use(error: PySparkException, checkpoint: str) -> CheckpointInUse | None:
    if "CONCURRENT_STREAM_LOG_UPDATE" not in str(error):
        return None
    return CheckpointInUse(
        "another process runs this pipeline on the same checkpoint; this one has ended, and nothing was written twice",
        checkpoint=checkpoint,
        hint="let one of them run; for another pipeline give a --name or --checkpoint of its own",
    )
