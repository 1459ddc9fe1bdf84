"""One session for a module, with the catalog `lake` on a warehouse of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.pipelines.spark.session import open_session
from penstock.table.catalog.catalog import Catalog


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake") / "warehouse"


@pytest.fixture(scope="module")
def catalog(warehouse: Path) -> Catalog:
    return Catalog(str(warehouse), {"local.sync": "false"})


@pytest.fixture(scope="module")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    session = open_session("catalog", master="local[2]", settings={"spark.sql.session.timeZone": "UTC"})
    penstock.register(session, catalog="lake", warehouse=warehouse, options={"local.sync": "false"})
    session.sql("CREATE DATABASE lake.shop")
    session.sql("USE lake.shop")
    yield session
    session.stop()
