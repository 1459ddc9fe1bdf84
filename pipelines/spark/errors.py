"""Translates the errors with which Spark queries end."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from penstock.errors import ConfigError
from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.errors import CheckpointInUse, SparkEnded, TasksLost, WorkerLate

# How long the process of a JVM may take to end after its connections broke.
ENDING_SECONDS = 10
_NO_LOCAL_FOLDER = 53  # with this code Spark ends its JVM if no folder of spark.local.dir can be used
_ENDING = re.compile(r"SparkContext\b.*\b(?:shut ?down|stopped)|[Ss]hutdown in progress")
# Matches only at the beginning of the text: later parts contain text of other origin.
_ENDED = r"(?:\[STREAM_FAILED\] Query \[[^\]\n]*\] terminated with exception: )?"
_CONCURRENT = re.compile(rf"{_ENDED}\[CONCURRENT_STREAM_LOG_UPDATE\]")
_PLANNER_LATE = re.compile(rf"{_ENDED}Python worker failed to connect back")
# Spark's own reasons for giving up a job whose tasks did not fail by themselves.
_TASKS_LOST = re.compile(
    r"Job aborted due to stage failure: (?:"
    r"Task \S+ in stage \S+ failed \d+ times?, most recent failure: "
    r"Lost task \S+ in stage \S+ \(TID \d+\) \([^()\n]*\): "
    r"(?P<executor>ExecutorLostFailure .*?Reason: [^\n]*|"
    r"org\.apache\.spark\.SparkException: (?P<worker>Python worker exited unexpectedly \(crashed\))|"
    # The worker was killed while its task wrote to it or waited for it.
    r"java\.(?:net\.SocketException|io\.IOException): (?:Connection reset(?: by peer)?|Broken pipe|Stream closed))"
    r"|(?P<shuffle>\w+Stage \d+ \([^\n]*\) has failed the maximum allowable number of times)"
    r"|(?P<rows>A shuffle map stage with indeterminate output was failed)"
    r"|(?P<master>Master removed our application: \w+))"
)
# The JVM and the planner process of a query have a connection.
_BROKEN_SOCKET = {"java.io.EOFException", "java.io.IOException", "java.net.SocketException"}
_PLANNER = "PythonStreamingSourceRunner"
_OF_PYTHON = "org.apache.spark.api.python.PythonException"
_WORKER_LATE = "org.apache.spark.SparkException: Python worker failed to connect back"


def cause_of_end(
    error: PySparkException | Py4JError, failure: BaseException | None, checkpoint: str, mark: ErrorMark
) -> BaseException:
    """Return the actual cause of a query's end.

    It is the sink's own error, an error that a task or the planner sent, one of those below, or Spark's.

    Spark's text includes values of records and names of the source, so only a marked line in it is accepted as an error
    of this package.
    """
    known = failure or mark.recovered(error) or _late(error) or tasks_lost(error) or _in_use(error, checkpoint)
    return known or _planner_lost(error) or error


def jvm_ended(error: BaseException, *, stopping: bool = False) -> SparkEnded | None:
    """Return a SparkEnded error if the JVM that this process started has ended, or None if it is alive.

    `error` may have been caused by that end. `stopping`: this process was asked to stop. A signal to a process group
    also ends Spark's processes, one after the other, and any error may come first.
    """
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # the JVM belongs to another process: spark-submit or a test
        return None
    # Connections break shortly before the process has ended.
    breaks = (
        stopping or isinstance(error, Py4JError | ConnectionError | EOFError) or _ENDING.search(str(error)) is not None
    )
    try:
        code = process.wait(ENDING_SECONDS if breaks else 0)
    except subprocess.TimeoutExpired:
        return None
    # A JVM that handles a signal, such as SIGTERM, ends with 128 plus its number. One that is killed has the number
    # as a negative code.
    by = f"signal {-code}" if code < 0 else f"signal {code - 128}" if code > 128 else None
    return SparkEnded(
        "Spark's JVM ended while the pipeline was running",
        killed_by=by,
        exit_code=None if by else code,
        hint=(
            "check whether the machine ran out of memory (see dmesg). Nothing is lost: run the pipeline again, "
            "and it continues at its last position"
        ),
    )


@contextmanager
def opening() -> Iterator[None]:
    """Report the end of the JVM while a session is opened, which PySpark shows as a broken connection."""
    try:
        yield
    except (Py4JError, OSError) as error:
        ended = jvm_ended(error)
        if ended is None:
            raise
        if ended.facts.get("exit_code") == _NO_LOCAL_FOLDER:
            raise ConfigError(
                "Spark cannot create its folder for temporary files; the lines above are its own",
                hint="make the folder of spark.local.dir or TMPDIR writable, or choose another one with  "
                "--spark-conf spark.local.dir=FOLDER",
            ) from error
        raise ended from error


def _late(error: BaseException) -> WorkerLate | None:
    text = str(error)
    # The text of a worker that did start may contain anything from its data.
    of_task = _WORKER_LATE in text and _OF_PYTHON not in text
    if not of_task and _PLANNER_LATE.match(text) is None:
        return None
    return WorkerLate(
        "a Python worker of Spark did not respond within ten seconds",
        hint="reduce the load on the driver's machine, or add cores; nothing was written, so run the pipeline again",
    )


def tasks_lost(error: BaseException) -> TasksLost | None:
    """Return a TasksLost error if Spark ended a job because processes of its tasks were killed, or None."""
    text = str(error)
    # A task that did fail by itself may show anything of its data.
    found = None if _OF_PYTHON in text else _TASKS_LOST.search(text)
    if found is None:
        return None
    reason = next(part for part in (found["worker"], *found.groups()) if part is not None)
    return TasksLost(
        "Spark ended the job because executors or Python processes of its tasks were lost",
        reason=reason[:300],
        hint=(
            "nothing of it was committed: run it again; a pipeline repeats the batch with  on-error: {retries: N} . "
            "Processes are often killed for their memory: see dmesg on their machine, and raise "
            "spark.executor.memory, spark.executor.memoryOverhead or spark.executor.pyspark.memory, or lower max-batch"
        ),
    )


def _planner_lost(error: BaseException) -> TasksLost | None:
    """Return a TasksLost error if the query ended because its planner process was killed, or None.

    Spark's error has no text then. Its classes and frames identify it, because no data of the source can look like
    them.
    """
    origin = getattr(error, "_origin", None)
    try:
        cause = None if origin is None else origin.getCause()
        if cause is None or cause.getClass().getName() not in _BROKEN_SOCKET:
            return None
        if not any(_PLANNER in str(frame.getClassName()) for frame in cause.getStackTrace()):
            return None
    except (Py4JError, OSError):  # the JVM is about to end too
        return None
    return TasksLost(
        "the Python process on the driver's machine that plans the batches was lost",
        hint=(
            "nothing is lost: run the pipeline again, or set  on-error: {retries: N} . Processes are often killed for "
            "their memory: see dmesg on the driver's machine"
        ),
    )


def _in_use(error: BaseException, checkpoint: str) -> CheckpointInUse | None:
    if _CONCURRENT.match(str(error)) is None:
        return None
    return CheckpointInUse.by_another(checkpoint)
