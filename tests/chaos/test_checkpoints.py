"""Checkpoints of Spark's own making, deleted, moved, rewound and copied: the tables notice, or nothing is amiss."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.job import build
from penstock.pipelines.job.job_run import JobRun
from penstock.pipelines.spark.session import open_session
from tests.integration.kafka.conftest import Broker
from tests.shop import Shop, insert

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session("checkpoints", master="local[2,2]")
    yield session
    session.stop()


class Pipeline:
    """Orders without a key, so that a row that comes twice is seen."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.shop = spark, broker, Shop(folder)
        self.topic = broker.topic()
        self.sent = 0

    @property
    def checkpoint(self) -> Path:
        return self.shop.folder / "checkpoint"

    def send(self) -> None:
        self.broker.send(self.topic, insert("orders", {"id": self.sent}))
        self.sent += 1

    def spec(self, checkpoint: str, **pipeline: object) -> PipelineSpec:
        sink = {"table-options": {}, "sync-primary-keys-from-source-schema": "false"}
        source = {
            "type": "kafka",
            "topic": [self.topic],
            "properties": self.broker.properties,
            "value.format": "canal-json",
            "startup": {"mode": "earliest-offset"},
        }
        made = self.shop.spec(checkpoint=checkpoint, pipeline=pipeline, sink=sink)
        return made.model_validate({**made.model_dump(by_alias=True), "source": source})

    def run(self, checkpoint: str = "checkpoint", **pipeline: object) -> None:
        JobRun(build.job(self.spec(checkpoint, **pipeline)), self.spark).run()

    def has_each_once(self) -> bool:
        return self.shop.ids("orders") == list(range(self.sent))


@pytest.fixture
def pipeline(spark: SparkSession, broker: Broker, tmp_path: Path) -> Pipeline:
    made = Pipeline(spark, broker, tmp_path)
    made.send()
    made.run()
    return made


def test_deleted(pipeline: Pipeline) -> None:
    shutil.rmtree(pipeline.checkpoint)
    pipeline.send()
    with pytest.raises(CheckpointMismatch, match="another checkpoint"):
        pipeline.run()
    assert pipeline.shop.ids("orders") == [0]
    shutil.rmtree(pipeline.checkpoint, ignore_errors=True)
    pipeline.run(resume_from_tables=True)
    assert pipeline.has_each_once()
    pipeline.send()
    pipeline.run()
    assert pipeline.has_each_once()


def test_renamed(pipeline: Pipeline) -> None:
    pipeline.checkpoint.rename(pipeline.shop.folder / "moved")
    pipeline.send()
    pipeline.run("moved")
    assert pipeline.has_each_once()
    with pytest.raises(CheckpointMismatch, match="another checkpoint"):
        pipeline.run()  # the old name is a new checkpoint now


def test_rewound(pipeline: Pipeline) -> None:
    shutil.copytree(pipeline.checkpoint, pipeline.shop.folder / "yesterday")
    for _ in range(2):
        pipeline.send()
        pipeline.run()
    shutil.rmtree(pipeline.checkpoint)
    (pipeline.shop.folder / "yesterday").rename(pipeline.checkpoint)
    with pytest.raises(CheckpointMismatch, match="rewound"):
        pipeline.run()
    assert pipeline.has_each_once()


def test_copied(pipeline: Pipeline) -> None:
    shutil.copytree(pipeline.checkpoint, pipeline.shop.folder / "copy")
    pipeline.send()
    pipeline.run()
    pipeline.send()
    with pytest.raises(CheckpointMismatch, match="copied"):
        pipeline.run("copy")
    pipeline.run()
    assert pipeline.has_each_once()
