"""A checkpoint in an object store, while Spark has no client for that store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

import penstock
from penstock.pipelines.job import build
from penstock.pipelines.job.foreach_batch import BatchSink
from penstock.pipelines.job.job_run import JobRun
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.spark.checkpoint_files import SETTING
from tests.servers import s3
from tests.shop import Shop, insert

pytestmark = pytest.mark.spark
CHECKPOINT = "s3://lake/checkpoint"


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    """The options of a store with the bucket `lake`, which exists."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    s3.create_bucket(f"http://{host}:{port}")
    yield {
        "s3.endpoint": f"http://{host}:{port}",
        "s3.access-key": s3.ACCESS_KEY,
        "s3.secret-key": s3.SECRET_KEY,
        "s3.region": "us-east-1",
        "s3.path.style.access": "true",
    }
    server.stop()


def test_a_run_continues_from_a_checkpoint_in_an_object_store(
    spark: SparkSession, tmp_path: Path, store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    catalog = {"warehouse": "s3://lake/warehouse", "options": store}

    def run(number: int) -> None:
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        spec = shop.spec(pipeline={"checkpoint": CHECKPOINT}, sink={"catalog": catalog})
        JobRun(build.job(spec), spark).run()

    # As Spark's documentation recommends for S3; it cannot write local files, and its jar is not there.
    of_store = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    spark.conf.set(SETTING, of_store)
    try:
        run(0)
        assert spark.conf.get(SETTING) == of_store
    finally:
        spark.conf.unset(SETTING)
    batches = CheckpointFolder(CHECKPOINT, store).batches
    first = batches.progress()
    assert (first.planned, first.done) == (0, 0)
    query, finished = batches.query(), BatchSink.__call__

    class DiedError(OSError):
        pass

    def dies(self: BatchSink, batch: Any, number: int) -> None:
        assert self.logs is not None
        self.logs.keep_plan(number)
        self.failure = DiedError("before the batch is written")
        raise self.failure

    with monkeypatch.context() as patch:
        patch.setattr(BatchSink, "__call__", dies)
        with pytest.raises(DiedError):
            run(1)
    assert (batches.progress().planned, batches.progress().done) == (1, 0)
    assert BatchSink.__call__ is finished
    run(2)
    done = batches.progress()
    assert done.planned == done.done
    assert batches.query() == query
    rows = penstock.Catalog("s3://lake/warehouse", store).table("ods.orders").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == [0, 1, 2]
