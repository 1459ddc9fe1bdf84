"""Small batches run in this process; Spark gets the first batch that needs it, and all that follow."""

from __future__ import annotations

import itertools
import json
import logging
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.ingest.source import SMALL_BYTES
from penstock.pipelines.driver import small_batches
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.job import local_batches
from penstock.pipelines.job.job import Job
from penstock.pipelines.ledger.batch_logs import BatchLogs
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.table.catalog.settings import CatalogSettings
from tests.shop import Shop, change, insert
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

# All snapshots but the newest expire.
FEW_SNAPSHOTS = {
    "bucket": "1",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1 ms",
}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A pipeline that has committed what there is, with Spark."""
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    run_as_spark(shop)
    return shop


def test_a_run_with_nothing_to_read_needs_no_spark(shop: Shop) -> None:
    assert not needs_spark(shop)
    assert shop.snapshots("orders") == 1


def test_a_small_batch_follows_those_of_spark(shop: Shop) -> None:
    add_a_file(shop)
    batches: list[int] = []
    found = local(shop)
    found.on_batch = lambda identity, report: batches.append(identity.number)
    found.run()
    assert (shop.ids("orders"), batches, found.has_caught_up) == ([1, 2], [1], True)
    newest = shop.table("orders").latest_snapshot
    assert newest is not None
    query = json.loads((shop.folder / "checkpoint/metadata").read_text())["id"]
    assert newest.commit_user == f"shop-{query}"
    progress = folder(shop).batches.progress()
    assert (progress.planned, progress.done, (progress.offsets or {})["batch"]) == (1, 1, 2)


def test_a_clock_that_is_set_during_a_batch_does_not_make_it_long(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    add_a_file(shop)
    leaps, now_millis = itertools.count(step=7_200_000), CatalogSettings.now_millis
    monkeypatch.setattr(CatalogSettings, "now_millis", lambda warehouse: now_millis(warehouse) + next(leaps))
    seen: list[BatchReport] = []
    found = local(shop)
    found.on_batch = lambda identity, report: seen.append(report)
    found.run()
    assert [(0 < report.seconds < 60, report.stats.seconds["plan"] < 60) for report in seen] == [(True, True)]


def test_a_plan_of_less_than_a_millisecond_is_counted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    add_a_file(shop)
    monkeypatch.setattr(CatalogSettings, "now_millis", lambda warehouse: 1_700_000_000_000)
    seen: list[BatchReport] = []
    found = local(shop)
    found.on_batch = lambda identity, report: seen.append(report)
    found.run()
    assert [report.stats.seconds["plan"] for report in seen] == [0.0]


def test_a_new_pipeline_begins_without_spark(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    local(shop).run()
    add_a_file(shop)
    local(shop).run()
    assert shop.ids("orders") == [1, 2]
    assert (folder(shop).batches.progress().done, shop.snapshots("orders")) == (1, 2)


def test_the_first_batch_of_a_checkpoint_runs_even_if_it_is_empty(tmp_path: Path) -> None:
    """As with Spark, so that what is there at the first start counts as known."""
    shop = Shop(tmp_path)
    local(shop).run()
    assert folder(shop).batches.progress().done == 0
    local(shop).run()
    assert folder(shop).batches.progress().done == 0


def test_a_batch_that_was_planned_and_not_finished_is_repeated_as_planned(shop: Shop) -> None:
    add_a_file(shop)
    local(shop).run()
    (shop.folder / "checkpoint/commits/1").unlink()  # as after a kill between the commits and this file
    shop.put("3.json", insert("orders", {"id": 3}))
    local(shop).run()
    assert (shop.ids("orders"), shop.snapshots("orders")) == ([1, 2, 3], 3)
    assert folder(shop).batches.progress().done == 2


def test_a_kill_between_plan_and_commit_loses_and_repeats_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    add_a_file(shop)

    def die(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BatchDriver, "take", die)
        with pytest.raises(KeyboardInterrupt):
            local(shop).run()
    assert folder(shop).batches.last_planned == 1
    local(shop).run()
    assert (shop.ids("orders"), shop.snapshots("orders")) == ([1, 2], 2)


def test_schemas_evolve(shop: Shop) -> None:
    shop.put("2.json", insert("orders", {"id": 2, "note": "new"}), insert("users", {"id": 1}))
    local(shop).run()
    assert shop.rows("orders") == [{"id": 1, "note": None}, {"id": 2, "note": "new"}]
    assert shop.ids("users") == [1]


def test_a_second_process_on_the_checkpoint_ends_one_of_them(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    add_a_file(shop)
    plan = BatchLogs.plan

    def other_first(logs: BatchLogs, number: int, end: dict[str, Any]) -> None:
        plan(replace(logs, now=lambda: 5.0), number, end)
        plan(logs, number, end)

    monkeypatch.setattr(BatchLogs, "plan", other_first)
    with pytest.raises(CheckpointInUse, match="another process is running this pipeline"):
        local(shop).run()
    assert shop.ids("orders") == [1]


def lose_the_query(shop: Shop) -> None:
    (shop.folder / "checkpoint/metadata").unlink()


def cut_the_query_short(shop: Shop) -> None:
    (shop.folder / "checkpoint/metadata").write_text('{"id"')


def write_another_version(shop: Shop) -> None:
    path = shop.folder / f"checkpoint/offsets/{folder(shop).batches.last_planned}"
    path.write_text(path.read_text().replace("v1", "v3"))


def cut_a_commit_short(shop: Shop) -> None:
    (shop.folder / f"checkpoint/commits/{folder(shop).batches.last_planned}").write_text("")


def lose_the_last_plan(shop: Shop) -> None:
    (shop.folder / f"checkpoint/offsets/{folder(shop).batches.last_planned}").unlink()


def ask_for_a_table(shop: Shop) -> None:
    folder(shop).signal("snapshot-1.json", ["ods.orders"])


def park_a_table(shop: Shop) -> None:
    record = {"table": "ods.orders", "batch": 0, "since_millis": 1, "error": "DecodeError", "reason": "no number"}
    folder(shop).put_parked([record])


UNUSUAL = [
    lose_the_query,
    cut_the_query_short,
    write_another_version,
    cut_a_commit_short,
    lose_the_last_plan,
    pause,
    ask_for_a_table,
    park_a_table,
]


@pytest.mark.parametrize("change", UNUSUAL)
def test_spark_starts_if_a_checkpoint_is_unusual_or_has_requests(change: Callable[[Shop], None], shop: Shop) -> None:
    change(shop)
    assert needs_spark(shop)


@pytest.mark.parametrize("recovery", [{"reread_all": True}, {"reread": ("ods.orders",)}], ids=["all", "one"])
def test_spark_starts_if_tables_are_to_be_read_again(recovery: dict[str, Any], shop: Shop) -> None:
    found = local(shop, spark := SparkRun())
    found.job = replace(found.job, recovery=replace(found.job.recovery, **recovery))
    found.run()
    assert spark.asked == ["run"]


def test_spark_runs_large_batches(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    add_a_file(shop)
    with monkeypatch.context() as patch:
        patch.setattr(local_batches, "TIMES_SMALL", 0)
        assert needs_spark(shop)
    with monkeypatch.context() as patch:
        patch.setattr(small_batches, "MOST_BYTES", 10)
        assert needs_spark(shop)
    assert folder(shop).batches.last_planned == 1  # Spark reads the batch that was planned here
    add_a_file_late(shop)
    assert not needs_spark(shop)
    assert shop.ids("orders") == [1, 2, 3]


def test_rows_of_a_batch_that_is_left_to_spark_are_freed_before_spark_starts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would stay in memory as long as the run with Spark lasts."""
    shop.put("2.json", insert("orders", *({"id": number, "note": "x" * 20} for number in range(30_000))))
    monkeypatch.setattr(small_batches, "MOST_BYTES", 100_000)
    read: list[weakref.ref[pa.RecordBatch]] = []
    read_all = BatchReader.read

    def noting(reader: BatchReader, task: TaskInput) -> Iterator[pa.RecordBatch]:
        for batch in read_all(reader, task):
            read.append(weakref.ref(batch))
            yield batch

    monkeypatch.setattr(BatchReader, "read", noting)
    kept: list[int] = []

    def with_spark(job: Job) -> SparkRun:
        kept.append(sum(reading() is not None for reading in read))
        return SparkRun()

    found = local(shop)
    found.with_spark = with_spark
    found.run()
    assert (len(read) > 0, kept) == (True, [0])


@pytest.mark.slow
def test_spark_runs_many_small_batches(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process would take them one after the other, however many cores there are."""
    sections = {"pipeline": {"max-batch": {"rows": 1}}}
    for number in range(2, 12):
        shop.put(f"{number:02}.json", insert("orders", {"id": number}))
    with monkeypatch.context() as patch:
        patch.setattr(local_batches, "TIMES_SMALL", 1000 / SMALL_BYTES)
        assert needs_spark(shop, **sections)
    assert not needs_spark(shop, **sections)
    assert shop.ids("orders") == list(range(1, 12))


def test_spark_knows_the_tables_that_were_created(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its first batch would find them missing, and would be read twice."""
    shop.put("2.json", insert("users", {"id": 1}))
    found, handed = local(shop, pipeline={"max-batch": {"rows": 1}}), []

    def with_spark(job: Job) -> SparkRun:
        handed.append(job.tables.existing)
        return SparkRun()

    def add_a_large_batch(*given: Any) -> None:
        shop.put("3.json", insert("users", {"id": 2}))
        monkeypatch.setattr(local_batches, "TIMES_SMALL", 0)

    found.with_spark, found.on_batch = with_spark, add_a_large_batch
    found.job = replace(found.job, trigger=replace(found.job.trigger, until_caught_up=False, seconds=0.0))
    found.run()
    assert handed == [("ods.orders", "ods.users")]


@pytest.mark.parametrize("limit", ["MOST_BUCKETS", "MOST_REMOTE_BUCKETS"])
def test_spark_writes_many_buckets(limit: str, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store takes longer for each file, so the driver writes fewer to it."""
    shop.put("2.json", insert("orders", *({"id": number} for number in range(20))))
    with monkeypatch.context() as patch:
        patch.setattr(small_batches, limit, 1)
        patch.setattr(small_batches, "is_object_store", lambda _: limit == "MOST_REMOTE_BUCKETS")
        assert needs_spark(shop)
    assert not needs_spark(shop)


KINDS_OF_SPARK = {
    "HASH_DYNAMIC": ({"bucket": "-1"}, ("id", "day")),
    "KEY_DYNAMIC": ({"bucket": "-1"}, ("id",)),
    "POSTPONE_MODE": ({"bucket": "-2"}, ("id", "day")),
}


@pytest.mark.parametrize(("options", "key"), KINDS_OF_SPARK.values(), ids=KINDS_OF_SPARK)
def test_spark_writes_tables_whose_keys_move_or_whose_buckets_are_postponed(
    options: dict[str, str], key: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if the table is created by the batch, which is then planned: Spark repeats it."""
    shop, sink = Shop(tmp_path), {"table-options": options, "partition-keys": ["day"], "primary-keys": list(key)}
    shop.put("1.json", change("INSERT", "orders", {"id": 1, "day": "a"}))
    spark = SparkRun()
    with caplog.at_level("INFO"):
        local(shop, spark, sink=sink).run()
    reasons = [line for line in caplog.messages if "event=run_needs_spark" in line]
    words = "ods.orders has bucket = -2" if options["bucket"] == "-2" else "ods.orders has a key without its partition"
    if "day" in key and options["bucket"] == "-1":
        assert spark.asked == reasons == []
        assert shop.ids("orders") == [1]
    else:
        assert spark.asked == ["run"]
        assert words in reasons[0]
        assert folder(shop).batches.last_planned == 0
        assert folder(shop).batches.progress().done is None
        assert shop.table("orders").latest_snapshot is None


def test_spark_runs_all_batches_if_configured(shop: Shop) -> None:
    found = local(shop, spark := SparkRun())
    found.takes_batches = False
    found.run()
    assert spark.asked == []
    add_a_file(shop)
    found = local(shop, spark)
    found.takes_batches = False
    found.run()
    assert spark.asked == ["run"]
    assert folder(shop).batches.last_planned == 1  # Spark takes the batch as it was planned here


def test_deferred_ranges_are_planned_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source has nothing new, but batches are not only planned from what is new at the source."""
    monkeypatch.setattr(BatchReader, "latest_offsets", lambda self, start, limit, until: start | {"freshness": {}})
    found = local(shop)
    found.takes_batches = False
    found.with_spark = lambda job: spark
    spark = SparkRun()
    found.run()
    assert spark.asked == ["run"]


def test_an_error_of_the_source_ends_the_run(shop: Shop) -> None:
    found = local(shop)
    shop.inbox.rename(shop.folder / "away")
    with pytest.raises(Exception, match="the source folder does not exist"):
        found.run()


@pytest.mark.slow
def test_spark_starts_when_a_compaction_beside_the_batches_is_due(shop: Shop) -> None:
    sink = {"compaction": {"mode": "background"}, "table-options": {"bucket": "1"}}
    started = []
    for number in range(2, 8):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        spark = SparkRun()
        local(shop, spark, sink=sink).run()
        started.append(bool(spark.asked))
    assert shop.ids("orders") == list(range(1, 8))
    assert started == sorted(started)
    assert started[-1]
    assert needs_spark(shop, sink=sink)  # also if there is nothing to read
    assert not needs_spark(shop)  # batches that compact by themselves leave nothing to do


def test_tables_are_maintained(tmp_path: Path) -> None:
    shop, sink = Shop(tmp_path), {"table-options": FEW_SNAPSHOTS}
    for number in range(4):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        run_as_spark(shop, sink=sink)
    before = shop.snapshots("orders")
    local(shop, sink=sink).run()
    assert (before, shop.snapshots("orders")) == (4, 1)


def test_arrow_has_as_many_threads_afterwards(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    add_a_file(shop)
    before = pa.cpu_count()
    try:
        pa.set_cpu_count(3)
        with caplog.at_level(logging.INFO):
            local(shop).run()
        assert pa.cpu_count() == 3
    finally:
        pa.set_cpu_count(before)
    assert "event=run_needs_spark" not in caplog.text
