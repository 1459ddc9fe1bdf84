"""How the end of Spark's JVM is recognised from the first error that it causes in the driver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException

from penstock.pipelines.spark.errors import jvm_ended

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
