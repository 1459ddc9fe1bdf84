"""The steps of a streaming INSERT on Spark, as far as they need no Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.pipelines.spark_streams.stream_steps import SparkInsert, StreamSteps
from penstock.table.sql.streams.job_progress import JobProgress
from penstock.table.sql.streams.stream_text import StreamSource


def steps_at(position: int) -> Any:
    return SimpleNamespace(position=position, poll=lambda: {"state": 0, "first": 1, "next": position + 2})


def test_a_job_that_runs_a_second_time_elsewhere_ends_before_it_writes(tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path)
    penstock.sql(
        "CREATE DATABASE s; CREATE TABLE s.a (id INT); CREATE TABLE s.b (id INT); INSERT INTO s.a VALUES (1);"
        "INSERT INTO s.a VALUES (2); INSERT INTO s.a VALUES (3)",
        str(tmp_path),
    )
    table = catalog.table("s.b")
    progress = JobProgress(StreamSource.of(catalog, ("s", "a"), {}), table, "sql:s.a->s.b", "hash", named=False)
    job = SparkInsert(cast(StreamSteps, steps_at(1)), progress, table, {})
    assert progress.last() == 1  # a job that begins at the newest snapshot would begin elsewhere when it starts again
    progress.record(2)
    with pytest.raises(ConfigError, match="runs elsewhere too: it has committed snapshot 2"):
        list(job.step())
