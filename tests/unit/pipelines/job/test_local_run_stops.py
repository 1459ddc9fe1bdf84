"""A run in this process that is stopped or paused, or whose store or source fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import SourceError, StoreError, TableCorrupt
from penstock.ingest.decoded_source import DecodedSource
from penstock.ingest.patience import patience_seconds
from penstock.ingest.source import Offsets
from penstock.ingest.source_waits import WaitEnded
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.job import build, local_batches
from penstock.pipelines.job.job import Job, RetryPolicy
from penstock.pipelines.job.local_run import LocalRun
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.task_input import TaskInput
from tests.shop import Shop, insert
from tests.unit.pipelines.job.local_shop import (
    SparkRun,
    add_a_file,
    add_a_file_late,
    folder,
    local,
    needs_spark,
    pause,
    run_as_spark,
)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A pipeline that has committed what there is, with Spark."""
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    run_as_spark(shop)
    return shop


def test_a_store_that_fails_is_tried_again_as_often_as_configured_in_the_file(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_a_file(shop)
    left: list[Exception] = [StoreError("503"), StoreError("503"), TableCorrupt("damaged")]
    monkeypatch.setattr(BatchDriver, "take", lambda *given: (_ for _ in ()).throw(left.pop(0)))
    found = local(shop)
    pauses: list[float] = []
    found.job, found.sleep = replace(found.job, retry=RetryPolicy(5, 1.0, 60.0)), pauses.append
    with pytest.raises(TableCorrupt):
        found.run()
    assert sum(pauses) == 1 + 2
    monkeypatch.undo()
    local(shop).run()  # the batch is planned, and taken once
    assert (shop.ids("orders"), shop.snapshots("orders")) == ([1, 2], 2)


def test_a_stop_ends_the_pause_before_a_retry(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    add_a_file(shop)
    found, pauses = local(shop), list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        found.stop()

    monkeypatch.setattr(BatchDriver, "take", lambda *given: (_ for _ in ()).throw(StoreError("503")))
    found.job, found.sleep = replace(found.job, retry=RetryPolicy(5, 300.0, 300.0)), sleep
    found.run()
    assert (len(pauses), sum(pauses) < 1, found.has_caught_up) == (1, True, False)


def failing_reads(monkeypatch: pytest.MonkeyPatch, failures: int, error: Exception) -> list[int]:
    """Let so many readings of a batch fail. Return the list in which readings are counted."""
    read, readings = BatchReader.read, list[int]()

    def failing(reader: BatchReader, task: TaskInput) -> Iterator[pa.RecordBatch]:
        readings.append(len(readings))
        if len(readings) <= failures:
            raise error
        yield from read(reader, task)

    monkeypatch.setattr(BatchReader, "read", failing)
    return readings


def test_a_reading_that_loses_its_source_is_repeated_as_a_task_of_spark(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_a_file(shop)
    readings = failing_reads(monkeypatch, 3, SourceError("the connection was lost", retryable=True))
    local(shop).run()
    assert (len(readings), shop.ids("orders"), shop.snapshots("orders")) == (4, [1, 2], 2)


@pytest.mark.parametrize(("retryable", "times"), [(True, 4), (False, 1)])
def test_a_source_that_stays_away_ends_the_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, retryable: bool, times: int
) -> None:
    add_a_file(shop)
    readings = failing_reads(monkeypatch, 9, SourceError("the connection was lost", retryable=retryable))
    with pytest.raises(SourceError, match="was lost"):
        local(shop).run()
    assert len(readings) == times


def test_a_run_without_end_waits_for_rows_pauses_and_stops(shop: Shop) -> None:
    add_a_file(shop)
    found = local(shop, pipeline={"until": "forever", "trigger": "0s"})
    events: list[str] = []

    def on_batch(*given: Any) -> None:
        events.append(f"batch with {shop.ids('orders')[-1]}")
        if len(events) == 1:
            found.pause()
        elif len(events) == 3:
            found.stop()

    def sleep(seconds: float) -> None:
        if found.is_resting:
            events.append("rests")
            found.resume()
            shop.put("3.json", insert("orders", {"id": 3}))

    found.on_batch, found.sleep = on_batch, sleep
    found.run()
    assert events == ["batch with 2", "rests", "batch with 3"]
    assert not found.has_caught_up
    assert not found.is_resting


def test_a_run_that_is_paused_while_its_source_is_away_rests(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    found, queried, rests = local(shop), [], []

    def away(reader: BatchReader) -> None:
        queried.append(patience_seconds(60.0))
        found.pause()
        raise SourceError("away", retryable=True)

    def sleep(seconds: float) -> None:
        rests.append(found.is_resting)
        if len(rests) == 3:
            found.stop()

    monkeypatch.setattr(BatchReader, "available", away)
    found.sleep = sleep
    found.run()
    assert (queried, rests) == ([60.0], [True, True, True])


@pytest.mark.parametrize("place", ["available", "read"])
def test_a_run_that_is_paused_and_resumed_while_its_source_is_away_reads_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The pause has cut the wait for the source short, which is no failure of the run."""
    add_a_file(shop)
    found, failures, close, work = local(shop), list[float](), BatchReader.close, getattr(BatchReader, place)

    def away(reader: BatchReader, *given: Any) -> Any:
        if failures:
            return work(reader, *given)
        found.pause()
        failures.append(patience_seconds(60.0))
        raise SourceError("away", retryable=True)

    def resumed(reader: BatchReader) -> None:
        found.resume()
        close(reader)

    monkeypatch.setattr(BatchReader, place, away)
    monkeypatch.setattr(BatchReader, "close", resumed)
    found.run()
    assert failures == [0.0]
    assert (shop.ids("orders"), found.has_caught_up) == ([1, 2], True)


def test_a_failure_long_after_a_pause_ends_the_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    add_a_file(shop)
    found = local(shop)
    found.pause()
    found.sleep = lambda _: found.resume()
    failing_reads(monkeypatch, 9, SourceError("the connection was lost", retryable=True))
    with pytest.raises(SourceError, match="was lost"):
        found.run()


def test_a_run_that_is_stopped_begins_no_more_batches(shop: Shop) -> None:
    for number in (2, 3):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
    found = local(shop, pipeline={"max-batch": {"rows": 1}})
    found.on_batch = lambda *given: found.stop()
    found.run()
    assert (shop.ids("orders"), found.has_caught_up) == ([1, 2], False)


def test_a_run_that_is_stopped_while_it_reads_leaves_the_batch_to_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large batch is read for seconds, which a stop need not wait for."""
    add_a_file(shop)
    found, read = local(shop), BatchReader.read

    def stopped(reader: BatchReader, task: TaskInput) -> Iterator[pa.RecordBatch]:
        found.stop()
        return read(reader, task)

    with monkeypatch.context() as patch:
        patch.setattr(BatchReader, "read", stopped)
        found.run()
    assert (shop.ids("orders"), found.has_caught_up, folder(shop).batches.last_planned) == ([1], False, 1)
    add_a_file_late(shop)
    assert not needs_spark(shop)
    assert (shop.ids("orders"), folder(shop).batches.progress().done) == ([1, 2, 3], 2)


def test_signals_reach_spark(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    add_a_file(shop)
    monkeypatch.setattr(local_batches, "TIMES_SMALL", 0)
    spark = SparkRun(has_caught_up=False, is_resting=True)
    found = local(shop, spark)

    def started(job: Job) -> SparkRun:
        found.pause()  # a signal that comes while Spark starts
        return spark

    found.with_spark = started
    found.on_batch = lambda *given: None
    found.run()
    found.resume()
    found.pause()
    found.stop()
    assert spark.asked == ["pause", "run", "resume", "pause", "stop"]
    assert (found.has_caught_up, found.is_resting, spark.on_batch) == (False, True, found.on_batch)


def test_a_run_that_was_stopped_does_not_start_spark(shop: Shop) -> None:
    found = local(shop, spark := SparkRun())
    pause(shop)
    found.stop()
    found.run()
    assert spark.asked == []


def test_a_stop_while_spark_starts_is_no_error(shop: Shop) -> None:
    """Whoever stops a process group also stops the JVM."""
    add_a_file(shop)
    job = build.ready(shop.spec(pipeline={"spark": "always"}))

    def killed(job: Job) -> SparkRun:
        stopped.stop()
        raise ConnectionError("Connection refused")

    stopped = LocalRun(job, folder(shop), killed, takes_batches=False)
    stopped.run()
    assert not stopped.has_caught_up
    running = LocalRun(job, folder(shop), lambda job: (_ for _ in ()).throw(ConnectionError), takes_batches=False)
    with pytest.raises(ConnectionError):
        running.run()


def test_a_batch_is_finished_when_a_stop_ends_the_wait_for_a_source_that_notes_its_position(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_a_file(shop)
    found, done = local(shop, pipeline={"until": "forever", "trigger": "0s"}), []

    def silent(source: DecodedSource, offsets: Offsets) -> None:
        found.stop()
        raise WaitEnded("a stop ended the wait for the source", retryable=True)

    monkeypatch.setattr(DecodedSource, "mirror", silent)
    found.on_batch = lambda identity, report: done.append(identity.number)
    found.run()
    assert (shop.ids("orders"), done) == ([1, 2], [1])
    progress = folder(shop).batches.progress()
    assert progress.planned == progress.done == 1
