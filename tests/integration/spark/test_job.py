"""Files of canal messages through the job into tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.errors import DecodeError, PenstockError
from penstock.pipelines.run import build
from penstock.pipelines.run.errors import CheckpointMismatch
from penstock.pipelines.run.job import Running
from penstock.pipelines.run.reports import BatchReport
from penstock.pipelines.run.sink import OnBatch
from penstock.pipelines.run.tables import Warehouse
from penstock.pipelines.spec.reading import parsed
from penstock.table.handle import Table
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.live import live_entries
from tests.integration.spark.shop import change, put

pytestmark = pytest.mark.spark


class Shop:
    """A folder with an inbox of messages, a checkpoint and a warehouse."""

    def __init__(self, folder: Path, session: SparkSession) -> None:
        self.folder, self.session = folder, session
        self.inbox = folder / "in"
        self.inbox.mkdir()
        self.warehouse = Warehouse.of(f"{folder}/warehouse", {})

    def run(
        self, *, name: str = "shop", checkpoint: str = "checkpoint", on_batch: OnBatch | None = None, **sections: Any
    ) -> None:
        pipeline = {"name": name, "checkpoint": f"{self.folder}/{checkpoint}", "until": "caught-up"}
        sink = {
            "catalog": {"warehouse": f"{self.folder}/warehouse"},
            "database": "ods",
            "table-options": {"bucket": "2"},
        }
        spec = {
            "source": {"type": "files", "path": str(self.inbox), "value.format": "canal-json"},
            "pipeline": pipeline | sections.pop("pipeline", {}),
            "sink": sink | sections.pop("sink", {}),
        }
        Running(build.job(parsed(spec | sections)), self.session, on_batch).run()

    def table(self, name: str) -> Table:
        return Table(self.warehouse.store(f"ods.{name}"))

    def files(self, name: str) -> list[DataFile]:
        store = self.table(name).store
        latest = store.snapshots.latest()
        return [entry.file for entry in live_entries(store, latest)] if latest else []

    def snapshots(self, name: str) -> int:
        return len(list(self.table(name).store.snapshots.newest_first()))

    def rows(self, name: str) -> list[dict[str, object]]:
        return sorted(self.table(name).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Shop:
    return Shop(tmp_path, spark)


def test_changes_of_several_tables_arrive_in_order_and_tables_make_themselves(shop: Shop) -> None:
    put(
        shop.inbox,
        "1.json",
        change("INSERT", "orders", {"id": 1, "name": "a"}, {"id": 2, "name": "b"}),
        change("INSERT", "users", {"id": 9, "name": "z"}),
        change("UPDATE", "orders", {"id": 1, "name": "a2"}, old=[{"name": "a"}]),
        change("DELETE", "orders", {"id": 2, "name": "b"}),
        change("INSERT", "secret", {"id": 1}),
    )
    shop.run(selection={"excluding-tables": "secret"})
    assert shop.rows("orders") == [{"id": 1, "name": "a2"}]
    assert shop.rows("users") == [{"id": 9, "name": "z"}]
    snapshots = list(shop.table("orders").store.snapshots.newest_first())
    assert len(snapshots) == 1
    assert snapshots[0].properties["penstock.pipeline"] == "shop"
    assert snapshots[0].commit_user.startswith("shop-")


def test_a_new_column_in_the_middle_of_a_batch_replays_that_table_alone(shop: Shop) -> None:
    put(shop.inbox, "1.json", change("INSERT", "orders", {"id": 1, "name": "a"}), change("INSERT", "users", {"id": 9}))
    shop.run()
    put(
        shop.inbox,
        "2.json",
        change("INSERT", "orders", {"id": 2, "name": "b"}),
        change("INSERT", "users", {"id": 8}),
        change("INSERT", "orders", {"id": 3, "name": "c", "q1": 7}),
        change("UPDATE", "orders", {"id": 1, "name": "a", "q1": 5}, old=[{"q1": None}]),
    )
    shop.run()
    assert shop.rows("orders") == [
        {"id": 1, "name": "a", "q1": 5},
        {"id": 2, "name": "b", "q1": None},
        {"id": 3, "name": "c", "q1": 7},
    ]
    assert [row["id"] for row in shop.rows("users")] == [8, 9]
    assert shop.table("orders").schema_id == 1
    files = {path.name for path in Path(shop.table("orders").path).glob("bucket-*/data-*")}
    assert files == {file.name for file in shop.files("orders")}, "what the first reading wrote is removed"


def test_batches_are_cut_by_the_limit_and_a_caught_up_run_makes_no_snapshot(shop: Shop) -> None:
    for number in range(3):
        put(shop.inbox, f"{number}.json", change("INSERT", "orders", {"id": number, "name": "x"}))
    shop.run(pipeline={"max-batch": {"rows": 1}})
    assert shop.snapshots("orders") == 3
    shop.run()
    assert shop.snapshots("orders") == 3


def test_a_bad_record_stops_the_job_and_names_its_place(shop: Shop) -> None:
    put(shop.inbox, "1.json", change("INSERT", "orders", {"id": 1}), "{nonsense")
    with pytest.raises(DecodeError) as caught:
        shop.run()
    assert caught.value.facts["place"] == "1.json"
    shop.run(errors={"bad-record": "skip"})
    assert [row["id"] for row in shop.rows("orders")] == [1]


@pytest.mark.parametrize("partitioned", [False, True])
def test_dynamic_buckets_keep_a_key_in_one_bucket_over_batches_and_writers(shop: Shop, partitioned: bool) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
    sink = {"table-options": options} | (
        {"partition-keys": ["q1"], "primary-keys": ["id", "q1"]} if partitioned else {}
    )
    for number in range(3):
        changes = [{"id": key, "name": f"v{number}", "q1": key % 2} for key in range(10 * number, 10 * number + 20)]
        put(shop.inbox, f"{number}.json", *(change("INSERT", "orders", one) for one in changes))
        shop.run(sink=sink)
    rows = shop.rows("orders")
    assert [row["id"] for row in rows] == list(range(40))
    assert {row["name"] for row in rows if row["id"] < 10} == {"v0"}
    assert {row["name"] for row in rows if row["id"] >= 20} == {"v2"}
    store = shop.table("orders").store
    latest = store.snapshots.latest()
    assert latest is not None
    buckets = {(entry.partition, entry.bucket) for entry in live_entries(store, latest)}
    assert len(buckets) >= 8


def test_an_append_table_takes_what_is_new_and_counts_what_it_leaves_out(shop: Shop) -> None:
    reports: list[BatchReport] = []
    put(
        shop.inbox,
        "1.json",
        change("INSERT", "orders", {"id": 1, "name": "a"}),
        change("UPDATE", "orders", {"id": 1, "name": "b"}, old=[{"name": "a"}]),
        change("DELETE", "orders", {"id": 1, "name": "b"}),
    )
    sink = {"sync-primary-keys-from-source-schema": "false", "table-options": {}}
    shop.run(sink=sink, on_batch=lambda _, report: reports.append(report))
    assert [row["name"] for row in shop.rows("orders")] == ["a", "b"]
    assert sum(one.dropped["ods.orders"] for one in reports[0].ranges) == 1


class Died(PenstockError):
    """The driver's death, as far as the tables can tell."""


def die(*_: object) -> None:
    raise Died("died between the commits and Spark's own log")


def test_a_batch_that_was_committed_before_the_driver_died_is_not_committed_again(shop: Shop) -> None:
    put(shop.inbox, "1.json", change("INSERT", "orders", {"id": 1, "name": "a"}))
    with pytest.raises(Died):
        shop.run(on_batch=die)
    before = {path.name for path in Path(shop.table("orders").path).glob("bucket-*/data-*")}
    shop.run()
    assert shop.snapshots("orders") == 1
    assert {path.name for path in Path(shop.table("orders").path).glob("bucket-*/data-*")} == before
    put(shop.inbox, "2.json", change("INSERT", "orders", {"id": 2, "name": "b"}))
    shop.run()
    assert [row["id"] for row in shop.rows("orders")] == [1, 2]


def test_a_new_checkpoint_over_tables_of_the_pipeline_is_refused_unless_accepted(shop: Shop) -> None:
    put(shop.inbox, "1.json", change("INSERT", "orders", {"id": 1, "name": "a"}))
    shop.run()
    with pytest.raises(CheckpointMismatch, match="another checkpoint"):
        shop.run(checkpoint="other")
    shop.run(checkpoint="third", pipeline={"accept-replay": True})
    assert [row["id"] for row in shop.rows("orders")] == [1]
    shop.run(checkpoint="fourth", name="another-pipeline")


def test_a_checkpoint_that_was_rewound_is_refused(shop: Shop) -> None:
    put(shop.inbox, "1.json", change("INSERT", "orders", {"id": 1, "name": "a"}))
    shop.run()
    shutil.copytree(shop.folder / "checkpoint", shop.folder / "copy")
    for number in (2, 3):
        put(shop.inbox, f"{number}.json", change("INSERT", "orders", {"id": number, "name": "b"}))
        shop.run()
    shutil.rmtree(shop.folder / "checkpoint")
    (shop.folder / "copy").rename(shop.folder / "checkpoint")
    with pytest.raises(CheckpointMismatch, match="rewound"):
        shop.run()
    assert [row["id"] for row in shop.rows("orders")] == [1, 2, 3]
