"""What Spark says of a query that ended, in our words."""

from __future__ import annotations

import re
import subprocess

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from penstock.ingest.carried import recovered
from penstock.pipelines.run.errors import CheckpointInUse, SparkEnded, WorkerLate

ENDING_SECONDS = 10
_ENDING = re.compile(r"SparkContext\b.*\b(?:shut ?down|stopped)|[Ss]hutdown in progress")
_ERRNO = re.compile(r"\[Errno (\d+)\] ([^\n:']+)(?:: '([^'\n]*)')?")


def told_by_spark(error: PySparkException, failure: BaseException | None, checkpoint: str) -> BaseException:
    """What really happened: an error that a task or the planner sent, the sink's own, one of those below, else
    Spark's."""
    return recovered(error) or failure or _late(error) or _in_use(error, checkpoint) or _of_disks(error) or error


def jvm_ended(error: BaseException) -> SparkEnded | None:
    """Where `error` follows from it: that the JVM which this process started has ended. None while it lives."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # another's: spark-submit's, or a test's
        return None
    # Connections break a little before the process is gone.
    breaks = isinstance(error, Py4JError | ConnectionError | EOFError) or _ENDING.search(str(error)) is not None
    try:
        code = process.wait(ENDING_SECONDS if breaks else 0)
    except subprocess.TimeoutExpired:
        return None
    by = f"signal {-code}" if code < 0 else f"signal {code - 128}" if code > 128 else None
    return SparkEnded(
        "Spark's JVM has ended under the pipeline",
        killed_by=by,
        exit_code=None if by else code,
        hint="was the machine short of memory (dmesg tells)? Nothing is lost: run again, and it goes on where it was",
    )


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
