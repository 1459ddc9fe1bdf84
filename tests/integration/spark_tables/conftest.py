from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.pipelines.spark.session import open_session
from penstock.table.catalog.catalog import Catalog


# A process has one Spark context, and files that run in it after one another want different ones: each ends its own.
@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session("tables", master="local[2]", settings={"spark.sql.session.timeZone": "Europe/Berlin"})
    yield session
    session.stop()


@pytest.fixture
def registered(spark: SparkSession) -> SparkSession:
    penstock.register(spark)
    return spark


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(str(tmp_path / "warehouse"), {"local.sync": "false"})
    made.create_database("shop")
    return made
