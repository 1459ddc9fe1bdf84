from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JError

from penstock.pipelines.spark.worker_start import start_workers
from tests import waiting


class Session:
    """A session that runs one task, or fails to."""

    def __init__(self, collect: Callable[[], None]) -> None:
        self.collect = collect
        self.asked: list[str] = []

    def range(self, *_: int, **__: int) -> Session:
        return self

    def mapInArrow(self, work: Callable[[Any], Any], schema: str) -> Session:
        self.asked.append(schema)
        assert list(work(iter([1]))) == [1]
        return self


def ended() -> None:
    for thread in threading.enumerate():
        if thread.name == "penstock-workers":
            waiting.ended(thread)


def test_the_caller_does_not_wait_for_the_workers() -> None:
    go_on, done = threading.Event(), threading.Event()

    def collect() -> None:
        assert go_on.wait(240)
        done.set()

    start_workers(Session(collect))  # type: ignore[arg-type]
    assert not done.is_set()
    go_on.set()
    ended()
    assert done.is_set()


def test_a_failure_is_left_to_the_first_batch(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise Py4JError("the JVM is gone\nwith a trace")

    with caplog.at_level(logging.INFO, "penstock.pipelines.spark.worker_start"):
        start_workers(Session(fail))  # type: ignore[arg-type]
        ended()
    assert "event=workers_not_started_ahead reason=the JVM is gone" in caplog.text
    assert "trace" not in caplog.text
