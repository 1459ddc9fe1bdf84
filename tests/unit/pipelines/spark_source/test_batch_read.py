"""Batch reads of tables under Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.datasource import InputPartition

from penstock.pipelines.spark_source.batch_read import TableReader, tasks_of
from penstock.pipelines.spark_source.table_read import Piece, PieceRead, spark_schema
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


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 1), (32, 32), (1000, 33), (10_000, 313)])
def test_small_splits_are_read_by_few_tasks_each_once_and_in_order(count: int, expected: int) -> None:
    pieces = [Piece(PieceRead.STATE, snapshot=number) for number in range(count)]
    tasks = tasks_of(pieces)
    assert len(tasks) == expected
    assert [piece for task in tasks for piece in task] == pieces


def test_few_splits_have_a_task_each_though_one_is_large() -> None:
    sizes = [200 << 20, *[1] * 31]
    pieces: list[Any] = [Piece(PieceRead.STATE, split=cast(Any, SimpleNamespace(size=size))) for size in sizes]
    assert tasks_of(pieces) == [(piece,) for piece in pieces]
    assert tasks_of([*pieces, pieces[-1]])[0] == (pieces[0],)
