"""How the end of Spark's JVM and lost tasks are recognised from the errors that they cause in the driver."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException

from penstock.errors import ConfigError, PenstockError
from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.errors import SparkEnded, TasksLost
from penstock.pipelines.job.job import may_pass
from penstock.pipelines.spark.errors import cause_of_end, jvm_ended, opening

# The whole text of a query that ended because its planner, which is in the same process group, was stopped first.
STOPPED_FIRST = "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception:  SQLSTATE: XXKST"


@pytest.fixture
def ending_jvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of Spark's JVM which ends, as SIGTERM ends it, half a second from now."""
    with subprocess.Popen(["bash", "-c", "sleep 0.5; kill -TERM $$"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        yield process
        process.kill()


@pytest.mark.slow
@pytest.mark.usefixtures("ending_jvm")
def test_any_error_after_a_stop_signal_waits_for_the_end_of_the_jvm() -> None:
    ended = jvm_ended(StreamingQueryException(STOPPED_FIRST), stopping=True)
    assert ended is not None
    assert ended.facts["killed_by"] == "signal 15"


@pytest.mark.slow
@pytest.mark.usefixtures("ending_jvm")
def test_an_error_of_a_running_jvm_is_delayed_only_if_its_connection_broke() -> None:
    assert jvm_ended(StreamingQueryException(STOPPED_FIRST)) is None
    assert jvm_ended(Py4JNetworkError("Answer from Java side is empty")) is not None


def test_a_jvm_of_another_process_is_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace())
    assert jvm_ended(StreamingQueryException(STOPPED_FIRST), stopping=True) is None


@pytest.mark.parametrize(("code", "kind"), [(53, ConfigError), (1, SparkEnded)])
def test_a_jvm_that_ends_while_a_session_is_opened_is_reported_by_its_code(
    code: int, kind: type[PenstockError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark reports only that the connection was refused."""
    with subprocess.Popen(["bash", "-c", f"exit {code}"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        with pytest.raises(kind) as caught, opening():
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    assert code != 53 or "spark.local.dir" in (caught.value.hint or "")


def test_an_error_of_a_session_whose_jvm_runs_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace())
    with pytest.raises(ConnectionRefusedError), opening():
        raise ConnectionRefusedError


FAILED = "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] {}"
GAVE_UP = "Job aborted due to stage failure: "
OF_TASK = "Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 7) (h executor 1): "
EXITED = "(executor 1 exited caused by one of the running tasks) Reason: Command exited with code 137"
LOST = {
    "executor": f"{OF_TASK}ExecutorLostFailure {EXITED}",
    "Python worker": f"{OF_TASK}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider",
    "socket of a worker": f"{OF_TASK}java.net.SocketException: Connection reset",
    "channel of a worker": f"{OF_TASK}java.io.IOException: Broken pipe",
    "stream of a worker": f"{OF_TASK}java.io.IOException: Stream closed",
    "shuffled data": "ShuffleMapStage 1 (toArrow at x.py:69) has failed the maximum allowable number of times: 4.",
    "master": "Master removed our application: FAILED",
}


@pytest.mark.parametrize("text", LOST.values(), ids=LOST.keys())
def test_lost_tasks_are_an_error_that_may_pass(text: str) -> None:
    shown = StreamingQueryException(FAILED.format(f"Caused by: {GAVE_UP}{text}\n\tat"))
    found = cause_of_end(shown, None, "checkpoint", ErrorMark())
    assert isinstance(found, TasksLost)
    assert may_pass(found)
    assert str(found.facts["reason"]) in text


def test_the_text_of_a_task_that_failed_is_not_read_as_a_lost_task() -> None:
    inner = f"org.apache.spark.api.python.PythonException: {GAVE_UP}{LOST['executor']}"
    shown = StreamingQueryException(FAILED.format(f"{GAVE_UP}{OF_TASK}{inner}"))
    assert cause_of_end(shown, None, "checkpoint", ErrorMark()) is shown


@pytest.mark.parametrize(
    ("kind", "frame", "is_planner"),
    [
        ("java.io.EOFException", "org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner", True),
        ("java.io.EOFException", "org.apache.hadoop.fs.ChecksumFileSystem", False),
        ("java.lang.IllegalStateException", "some.PythonStreamingSourceRunner", False),
    ],
)
def test_a_lost_planner_process_is_an_error_that_may_pass(kind: str, frame: str, is_planner: bool) -> None:
    cause = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getName=lambda: kind),
        getStackTrace=lambda: [SimpleNamespace(getClassName=lambda: frame)],
    )
    shown = StreamingQueryException("[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: ")
    shown._origin = SimpleNamespace(getCause=lambda: cause)  # type: ignore[assignment]
    found = cause_of_end(shown, None, "checkpoint", ErrorMark())
    assert isinstance(found, TasksLost) == is_planner
    assert may_pass(found) == is_planner
