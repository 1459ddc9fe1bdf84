"""What Spark says of a query that ended, in our words."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

from penstock.ingest.carried import recovered
from penstock.pipelines.run.errors import CheckpointInUse, WorkerLate

_ERRNO = re.compile(r"\[Errno (\d+)\] ([^\n:']+)(?:: '([^'\n]*)')?")


def told_by_spark(error: PySparkException, failure: BaseException | None, checkpoint: str) -> BaseException:
    """What really happened: an error that a task or the planner sent, the sink's own, one of those below, else
    Spark's."""
    return recovered(error) or failure or _late(error) or _in_use(error, checkpoint) or _of_disks(error) or error


def _of_disks(error: PySparkException) -> OSError | None:
    """A full disk, rights that are missing, a network that is gone, met by a task or by the sink."""
    found = _ERRNO.findall(str(error))
    if not found:
        return None
    number, words, name = found[-1]
    return OSError(int(number), words.strip(), *([name] if name else []))


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
