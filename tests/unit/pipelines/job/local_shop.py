"""A pipeline of a small shop, run in this process, with a stand-in for the run with Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.pipelines.driver.batch_driver import OnBatch
from penstock.pipelines.job import build
from penstock.pipelines.job.local_run import LocalRun
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.here import note_as_spark_does, run
from tests.shop import Shop, insert


@dataclass
class SparkRun:
    """What the local run hands over to. It notes what is asked of it."""

    asked: list[str] = field(default_factory=list)
    on_batch: OnBatch | None = None
    has_caught_up: bool = True
    is_resting: bool = False

    def run(self) -> None:
        self.asked.append("run")

    def stop(self) -> None:
        self.asked.append("stop")

    def pause(self) -> None:
        self.asked.append("pause")

    def resume(self) -> None:
        self.asked.append("resume")


def run_as_spark(shop: Shop, **sections: Any) -> None:
    run(shop.spec(**sections))
    note_as_spark_does(shop.folder / "checkpoint")


def local(shop: Shop, spark: SparkRun | None = None, **sections: Any) -> LocalRun:
    started = spark or SparkRun(["must not start"])
    return LocalRun(build.ready(shop.spec(**sections)), folder(shop), lambda job: started)


def folder(shop: Shop) -> CheckpointFolder:
    return CheckpointFolder(f"{shop.folder}/checkpoint")


def needs_spark(shop: Shop, **sections: Any) -> bool:
    """Run, and return whether Spark was started. Nothing is written if it was."""
    spark, before = SparkRun(), shop.snapshots("orders")
    found = local(shop, spark, **sections)
    found.run()
    assert found.has_caught_up
    assert spark.asked in ([], ["run"])
    assert not spark.asked or shop.snapshots("orders") == before
    return bool(spark.asked)


def add_a_file(shop: Shop) -> None:
    shop.put("2.json", insert("orders", {"id": 2}))


def add_a_file_late(shop: Shop) -> None:
    shop.put("3.json", insert("orders", {"id": 3}))


def pause(shop: Shop) -> None:
    folder(shop).signal("paused")
