"""Files of canal messages through a Spark query into tables. What batches do is tested without Spark."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import penstock
from penstock.errors import DecodeError, PenstockError
from penstock.ingest.source import SMALL_BYTES
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import OnBatch
from penstock.pipelines.job import build
from penstock.pipelines.job.foreach_batch import SparkTasks
from penstock.pipelines.job.job_run import JobRun
from penstock.pipelines.spark.checkpoint_files import SETTING
from tests.shop import Shop, change, insert
from tests.waiting import LIMIT_S, ended, until

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def run(session: SparkSession, spec: PipelineSpec, on_batch: OnBatch | None = None) -> None:
    JobRun(build.job(spec), session, on_batch).run()


@pytest.fixture
def shuffles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the batches that were shuffled, and of those that were read again: these are always shuffled."""
    found: list[int] = []
    original = SparkTasks._run_shuffled

    def run_shuffled(self: SparkTasks, reader: Any, number: int, *more: Any) -> Any:
        found.append(number)
        return original(self, reader, number, *more)

    monkeypatch.setattr(SparkTasks, "_run_shuffled", run_shuffled)
    return found


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_day_of_the_shop_with_new_tables_drift_and_dynamic_buckets(
    shop: Shop, spark: SparkSession, shuffles: list[int], large: bool
) -> None:
    sink = {"table-options": {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}}
    # One range without a second one: its batch is large by its bytes alone.
    ballast = [insert("users", {"id": 7, "name": "b"}) + " " * SMALL_BYTES] if large else []
    shop.put(
        "1.json",
        *(insert("orders", {"id": key, "name": "a"}) for key in range(12)),
        insert("users", {"id": 9, "name": None}),
        *ballast,
    )
    run(spark, shop.spec(sink=sink))
    assert shuffles == ([0, 0] if large else [0])  # the tables are created, and the batch is read again
    shop.put(
        "2.json",
        *ballast,
        insert("users", {"id": 8}),
        insert("orders", {"id": 30, "name": "c", "q1": 7}),
        change("UPDATE", "orders", {"id": 1, "name": "a", "q1": 5}, old=[{"q1": None}]),
        change("DELETE", "orders", {"id": 2, "name": "a", "q1": None}),
    )
    run(spark, shop.spec(sink=sink))
    rows = {row["id"]: row for row in shop.rows("orders")}
    assert set(rows) == {*range(12), 30} - {2}
    assert (rows[1]["q1"], rows[30]["q1"], rows[3]["q1"]) == (5, 7, None)
    assert shop.ids("users") == ([7, 8, 9] if large else [8, 9])
    assert shuffles == ([0, 0, 1, 1] if large else [0, 1])
    assert (shop.snapshots("orders"), shop.snapshots("users"), shop.table("orders").schema_id) == (2, 2, 1)
    assert shop.files("orders") == {file.name for file in shop.live("orders")}


def test_a_pipeline_in_python_uses_a_session_and_does_not_stop_it(
    tmp_path: Path, shop: Shop, spark: SparkSession
) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    pipeline = penstock.Pipeline(
        {
            "pipeline": {"name": "shop"},
            "source": {"type": "files", "path": shop.inbox, "value.format": "canal-json"},
            "sink": {"catalog": {"warehouse": tmp_path / "warehouse"}, "database": "ods"},
        }
    )
    done = pipeline.run(until_caught_up=True, session=spark)
    assert (done["records"], done["rows"], done["parked"]) == ({"ods.orders": 1}, {"ods.orders": 1}, [])
    shop.put("2.json", insert("orders", {"id": 2, "name": "b"}))
    # Threads that get no signals may run a pipeline too.
    events: list[dict[str, object]] = []
    runner = threading.Thread(target=lambda: events.append(pipeline.run(until_caught_up=True, session=spark)))
    runner.start()
    ended(runner)
    assert events[0]["rows"] == {"ods.orders": 1}
    assert shop.ids("orders") == [1, 2]
    assert spark.range(3).count() == 3


# Settings of a user's session that change how Spark plans, and what it sends to Python.
OTHERS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture
def other_settings(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in request.param}
    for key, value in request.param.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


@pytest.mark.parametrize("other_settings", [{}, OTHERS], ids=["usual settings", "other settings"], indirect=True)
@pytest.mark.usefixtures("other_settings")
def test_keys_move_between_partitions_and_other_tables_skip_that_step(shop: Shop, spark: SparkSession) -> None:
    sink = {"partition-keys": ["q1"], "primary-keys": ["id"], "table-options": {"bucket": "-1"}}
    for day in range(2):
        for part in range(5):  # more files than tasks
            moved = [{"id": key, "name": f"{day}{part}", "q1": (key + part + day) % 3} for key in range(part, 8)]
            shop.put(f"{day}{part}.json", insert("orders", *moved), insert("users", {"id": part, "q1": day}))
        run(spark, shop.spec(sink=sink))
    expected = [(key, f"1{min(key, 4)}", (key + min(key, 4) + 1) % 3) for key in range(8)]
    assert [tuple(row.values()) for row in shop.rows("orders")] == expected
    assert [(row["id"], row["q1"]) for row in shop.rows("users")] == [(key, 1) for key in range(5)]
    assert shop.table("orders").bucket_mode == "KEY_DYNAMIC"


def test_an_error_of_a_task_ends_the_job_with_its_class(shop: Shop, spark: SparkSession) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), "{nonsense")
    with pytest.raises(DecodeError) as caught:
        run(spark, shop.spec())
    assert caught.value.facts["place"] == "1.json"


class Died(PenstockError):
    """The driver's death, as far as the tables can tell."""


def die(*_: object) -> None:
    raise Died("died between the commits and Spark's own log")


def test_a_batch_replayed_by_spark_is_recognised_by_the_tables(shop: Shop, spark: SparkSession) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    with pytest.raises(Died):
        run(spark, shop.spec(), die)
    shop.put("2.json", insert("orders", {"id": 2, "name": "b"}))
    run(spark, shop.spec())
    assert shop.ids("orders") == [1, 2]
    assert shop.snapshots("orders") == 2


@pytest.mark.slow
def test_a_worker_that_starts_too_late_is_started_again(
    shop: Shop, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow = tmp_path / "python"
    slow.write_text(
        # Spark waits for 10 seconds, and longer if it stands still.
        f"""#!/bin/sh
case "$*" in *streaming*) mkdir {tmp_path}/late 2>/dev/null && sleep 30 ;; esac
exec {sys.executable} "$@"
"""
    )
    slow.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(slow))
    shop.put("1.json", insert("orders", {"id": 1}))
    run(spark, shop.spec())
    assert shop.ids("orders") == [1]
    assert "event=retry" in caplog.text


def test_a_running_job_reads_new_files_and_stops_on_a_signal(shop: Shop, spark: SparkSession) -> None:
    running = JobRun(build.job(shop.spec(pipeline={"until": "forever", "trigger": "200ms"})), spark)
    thread = threading.Thread(target=running.run)
    thread.start()
    for number in range(2):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        wait_until(lambda wanted=number + 1: exists(shop) and len(shop.ids("orders")) == wanted)  # type: ignore[misc]
    running.stop()
    ended(thread)


def exists(shop: Shop) -> bool:
    return (shop.folder / "warehouse/ods.db/orders/snapshot/LATEST").exists()


def wait_until(true: object, seconds: float = LIMIT_S) -> None:
    until(true, "the rows of the table", seconds)  # type: ignore[arg-type]


def test_background_compaction_is_a_separate_spark_job(shop: Shop, spark: SparkSession) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2", "num-sorted-run.stop-trigger": "100"}
    sink = {"table-options": options, "compaction": {"mode": "background"}}
    spec = shop.spec(pipeline={"until": "forever", "trigger": "100ms"}, sink=sink)
    running = JobRun(build.job(spec), spark)
    thread = threading.Thread(target=running.run)
    thread.start()
    for number in range(4):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        wait_until(lambda wanted=number + 1: exists(shop) and len(shop.ids("orders")) == wanted)  # type: ignore[misc]
    wait_until(lambda: any(snapshot.commit_user.endswith("-compact") for snapshot in shop.table("orders").snapshots))
    running.stop()
    ended(thread)
    assert shop.ids("orders") == [0, 1, 2, 3]


def test_a_bounded_run_maintains_its_tables_before_it_ends(shop: Shop, spark: SparkSession) -> None:
    keep = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
    for number in range(3):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
    run(spark, shop.spec(pipeline={"max-batch": {"rows": 1}}, sink={"table-options": {"bucket": "1", **keep}}))
    assert shop.snapshots("orders") == 1
    assert shop.ids("orders") == [0, 1, 2]


def test_a_checkpoint_on_a_plain_path_is_not_in_the_default_file_system(shop: Shop, spark: SparkSession) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    # As on a machine with the configuration of a Hadoop cluster.
    spark.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    try:
        run(spark, shop.spec())
    finally:
        spark.conf.unset("fs.defaultFS")
    assert shop.ids("orders") == [1]


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_file_that_a_killed_first_batch_left_does_not_stop_the_next_start(
    shop: Shop, spark: SparkSession, log: str
) -> None:
    """Spark writes each file of a log under another name first. It takes such a file for a foreign checkpoint."""
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    spec = shop.spec()
    left = Path(spec.checkpoint, log, ".0.3f2b0a9c-1111-4444-8888-000000000000.tmp")
    left.parent.mkdir(parents=True)
    left.write_text("v1\n")
    run(spark, spec)
    assert shop.ids("orders") == [1]


def test_files_of_a_local_checkpoint_are_written_by_the_quick_class(shop: Shop, spark: SparkSession) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "a"}))
    run(spark, shop.spec())
    assert spark.conf.get(SETTING).endswith(".FileSystemBasedCheckpointFileManager")
    assert shop.ids("orders") == [1]
    # The class must exist, or Spark refuses to start: so it is the one that Spark uses.
    spark.conf.unset("spark.penstock.checkpointFilesChosen")
    spark.conf.set(SETTING, "com.example.Missing")
    try:
        with pytest.raises(Py4JJavaError, match=r"com\.example\.Missing"):
            run(spark, shop.spec())
    finally:
        spark.conf.unset(SETTING)
