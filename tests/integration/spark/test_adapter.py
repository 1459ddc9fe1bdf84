"""The Python data source under Spark, around a stream of numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import PositionLost
from penstock.ingest.carried_errors import ErrorMark
from penstock.ingest.source import Limit, Offsets
from penstock.ingest.spark_stream import changes_source

pytestmark = pytest.mark.spark

MARK = ErrorMark()


@dataclass(frozen=True)
class Numbers:
    """Counts to `total`; a number at which it stops reading stands for a lost position."""

    total: int
    limit: Limit
    lost_at: int = -1

    def initial_offsets(self) -> Offsets:
        return {"at": 0}

    def available(self) -> Offsets:
        return {"at": self.total}

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets:
        end = self.total if limit.rows is None else start["at"] + limit.rows
        return {"at": min(end, self.total)}

    def inputs(self, start: Offsets, end: Offsets) -> list[tuple[int, int]]:
        middle = (start["at"] + end["at"]) // 2
        return [(start["at"], middle), (middle, end["at"])]

    def read(self, task: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        if task[0] <= self.lost_at < task[1]:
            raise PositionLost("gone", topic="numbers", offset=self.lost_at)
        numbers = list(range(*task))
        yield pa.record_batch(
            {"n": pa.array(numbers, pa.int64()), "payload": pa.array([b"x"] * len(numbers), pa.binary())}
        )

    def close(self) -> None:
        pass


def run(spark: SparkSession, numbers: Numbers, checkpoint: Path) -> list[list[int]]:
    batches: list[list[int]] = []

    def take(batch: DataFrame, number: int) -> None:
        batches.append(sorted(row.n for row in batch.select("n").collect()))

    spark.dataSource.register(changes_source("numbers", "n bigint, payload binary", numbers, MARK))
    stream = spark.readStream.format("numbers").load()
    query = (
        stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).foreachBatch(take)
    )
    query.start().awaitTermination()
    return batches


@pytest.fixture(autouse=True)
def workers_find_this_module(monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.environ.get("PYTHONPATH"), "the session's environment carries the code"


def test_a_bounded_run_reads_everything_in_limited_batches_and_resumes(spark: SparkSession, tmp_path: Path) -> None:
    assert run(spark, Numbers(7, Limit(rows=3)), tmp_path) == [[0, 1, 2], [3, 4, 5], [6]]
    assert run(spark, Numbers(9, Limit()), tmp_path) == [[7, 8]]
    assert run(spark, Numbers(9, Limit()), tmp_path) == []


def test_an_error_of_a_task_keeps_its_class_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StreamingQueryException) as caught:
        run(spark, Numbers(7, Limit(), lost_at=2), tmp_path)
    error = MARK.recovered(caught.value)
    assert isinstance(error, PositionLost)
    assert error.facts == {"topic": "numbers", "offset": "2"}
