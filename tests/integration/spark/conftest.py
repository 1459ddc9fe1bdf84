from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.pipelines.spark.session import open_session


# A process has one Spark context, and files that run in it after one another want different ones: each ends its own.
@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session("tests", master="local[2,2]")
    yield session
    session.stop()
