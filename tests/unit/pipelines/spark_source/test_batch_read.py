"""Batch reads of tables under Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from penstock.pipelines.spark_source.batch_read import TableReader
from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.table.catalog.catalog import Catalog


@pytest.mark.parametrize("partition", [None, InputPartition(None)], ids=["Spark 4.0", "newer"])
def test_the_partition_that_spark_adds_to_an_empty_plan_has_no_rows(
    tmp_path: Path, partition: InputPartition | None
) -> None:
    catalog = Catalog(str(tmp_path), {"local.sync": "false"})
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", [("id", "INT NOT NULL")], ["id"], options={"bucket": "1"})
    reader = TableReader({"path": table.path}, spark_schema(table.schema))
    assert reader.partitions() == []
    assert list(reader.read(partition)) == []
