"""Partitions that statements of Spark drop, by values as the catalog sends them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.pipelines.spark_catalog.partition_statements import drop_partitions, partitions
from penstock.table.catalog.catalog import Catalog

NAME = "__DEFAULT_PARTITION__"


@pytest.mark.parametrize(("dropped", "left"), [(NAME, [None, "a"]), (None, [NAME, "a"]), ("a", [NAME, None])])
def test_a_text_does_not_drop_the_partition_of_nulls(tmp_path: Path, dropped: str | None, left: list[str]) -> None:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    table = catalog.create_table("d.t", [("id", "INT"), ("p", "STRING")], partition_keys=["p"])
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "p": [NAME, None, "a"]}))
        writer.commit()
    request: Any = SimpleNamespace(table=table.refresh, given={"wheres": [{"p": dropped}], "where": {}})
    assert drop_partitions(request)
    assert table.scan().to_arrow().sort_by("id")["p"].to_pylist() == left
    assert len(partitions(request)) == 2
