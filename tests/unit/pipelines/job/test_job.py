"""Errors that a running pipeline retries by `on-error`, and errors that stop it at once."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from py4j.protocol import Py4JError

from penstock.errors import SourceError, StoreError, TableCorrupt
from penstock.pipelines.errors import SparkEnded, TasksLost
from penstock.pipelines.job.job import RetryPolicy
from penstock.pipelines.job.job_run import JobRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def running(monkeypatch: pytest.MonkeyPatch, retries: int, *outcomes: BaseException) -> tuple[JobRun, list[float]]:
    """A pipeline whose runs end so, one after the other, and then well; with its pauses."""
    pauses: list[float] = []
    job: Any = SimpleNamespace(retry=RetryPolicy(retries, 1.0, 60.0))
    session: Any = None
    left = list(outcomes)

    def run_once(self: JobRun) -> bool:
        if left:
            raise left.pop(0)
        return True

    monkeypatch.setattr(JobRun, "_run_once", run_once)
    return JobRun(job, session, sleep=pauses.append), pauses


PASSING = [
    StoreError("503"),
    OSError(errno.EIO, "a disk says no"),
    OSError(errno.ENOSPC, "No space left on device"),
    TimeoutError("no answer"),
    SourceError("away", retryable=True),
]
LASTING = [PermissionError(errno.EACCES, "no"), OSError(errno.EROFS, "read-only"), TableCorrupt("damaged")]


@pytest.mark.parametrize("failure", PASSING, ids=repr)
def test_retryable_errors_are_retried_up_to_the_limit(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    job, pauses = running(monkeypatch, 2, failure, failure)
    job.run()
    assert sum(pauses) == 1 + 2
    job, pauses = running(monkeypatch, 1, failure, failure)
    with pytest.raises(type(failure)) as caught:
        job.run()
    assert caught.value is failure
    assert sum(pauses) == 1


@pytest.mark.parametrize("failure", LASTING, ids=repr)
def test_other_errors_stop_the_run_at_once(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    job, pauses = running(monkeypatch, 5, failure)
    with pytest.raises(type(failure)):
        job.run()
    assert pauses == []


@pytest.mark.parametrize("failure", PASSING, ids=repr)
def test_nothing_is_retried_by_default(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    job, _ = running(monkeypatch, 0, failure)
    with pytest.raises(type(failure)):
        job.run()


def test_a_run_that_is_stopped_has_not_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    job, _ = running(monkeypatch, 0)
    job.run()
    assert job.has_caught_up
    job, _ = running(monkeypatch, 0)

    def stopped(self: JobRun) -> bool:
        self.stop()
        return False

    monkeypatch.setattr(JobRun, "_run_once", stopped)
    job.run()
    assert not job.has_caught_up


def test_a_stop_ends_the_pause_before_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    job, pauses = running(monkeypatch, 9, *[StoreError("503")] * 9)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if sum(pauses) > 20:  # the fifth pause has 16 s
            job.stop()

    job.sleep = sleep
    job.run()
    assert not job.has_caught_up
    assert 20 < sum(pauses) <= 21


@pytest.mark.parametrize("is_away", [True, False])
def test_a_stop_that_ends_the_wait_for_a_source_is_no_failure(monkeypatch: pytest.MonkeyPatch, is_away: bool) -> None:
    job, pauses = running(monkeypatch, 5)
    job.job = cast(Any, SimpleNamespace(retry=job.job.retry, name="shop"))

    def stopped(self: JobRun) -> bool:
        self.stop()
        raise SourceError("a stop ended the wait for the source", retryable=is_away)

    monkeypatch.setattr(JobRun, "_run_once", stopped)
    with nullcontext() if is_away else pytest.raises(SourceError):
        job.run()
    assert (job.has_caught_up, pauses) == (False, [])


@pytest.mark.parametrize("ended", [False, True, None])
def test_lost_tasks_are_retried_unless_spark_gave_up_the_application(
    ended: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, pauses = running(monkeypatch, 3, TasksLost("lost"))

    def is_stopped() -> bool:
        if ended is None:
            raise Py4JError("the JVM does not answer")
        return ended

    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped)))
    job.session = cast("SparkSession", SimpleNamespace(sparkContext=context))
    with nullcontext() if ended is False else pytest.raises(TasksLost):
        job.run()
    assert sum(pauses) == (ended is False)


def test_tasks_that_are_lost_with_the_jvm_are_an_end_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal to all processes may end those of tasks first, and a machine without memory the JVM after them."""
    monkeypatch.setattr("penstock.pipelines.job.job_run.jvm_ended", lambda *_, **__: SparkEnded("ended"))
    job, _ = running(monkeypatch, 3, TasksLost("lost"))
    with pytest.raises(SparkEnded):
        job.run()
    job, _ = running(monkeypatch, 3)

    def stopped(self: JobRun) -> bool:
        self.stop()
        raise TasksLost("lost")

    monkeypatch.setattr(JobRun, "_run_once", stopped)
    job.run()
    assert not job.has_caught_up
