"""The two rows of an update that comes as two messages, through filters and quality rules of a pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.row_kinds import UPDATE_AFTER, UPDATE_BEFORE
from penstock.schema_evolution.update_images import image_pairs
from tests.here import run
from tests.shop import Shop

SUMS = {"bucket": "1", "merge-engine": "aggregation", "fields.q.aggregate-function": "sum"}


def aliyun(operation: str, **row: Any) -> str:
    side = "before" if operation == "UPDATE_BEFORE" else "after"
    columns = [{"name": name, "type": kind} for name, kind in (("id", "LONG"), ("city", "STRING"), ("q", "LONG"))]
    source = {"dataColumn": columns, "primaryKey": ["id"], "source": {"dbName": "shop", "tableName": "orders"}}
    return json.dumps({"schema": source, "payload": {"op": operation, side: {"dataColumn": row}}})


def arrived(folder: Path, **sections: Any) -> list[dict[str, Any]]:
    """Return the rows of a table after two inserts, and an update of one row from 10 to 90."""
    shop = Shop(folder)
    shop.put(
        "1.json",
        aliyun("INSERT", id=1, city="a", q=10),
        aliyun("INSERT", id=2, city="a", q=5),
        aliyun("UPDATE_BEFORE", id=1, city="a", q=10),
        aliyun("UPDATE_AFTER", id=1, city="a", q=90),
    )
    run(shop.spec(source={"value.format": "aliyun-json"}, **sections))
    rows: list[dict[str, Any]] = shop.table("orders").scan().to_arrow().to_pylist()
    return rows


def test_a_sum_does_not_undo_the_new_row_of_an_update_that_leaves_the_filter(tmp_path: Path) -> None:
    rule = {"source-table": "shop.orders", "projection": "city, q", "primary-keys": ["city"], "filter": "q < 50"}
    assert arrived(tmp_path, sink={"table-options": SUMS}, transform=[rule]) == [{"city": "a", "q": 5}]


def test_a_row_stays_as_it_was_where_a_quality_rule_drops_its_update(tmp_path: Path) -> None:
    sink = {"table-options": {"bucket": "1", "changelog-producer": "input"}}
    rows = arrived(tmp_path, sink=sink, expect=[{"source-table": "shop.*", "condition": "q < 50", "action": "drop"}])
    assert [(row["id"], row["q"]) for row in rows] == [(1, 10), (2, 5)]


@pytest.mark.parametrize(
    ("ids", "positions", "subs", "pairs"),
    [
        ([1, 1], [7, 7], [0, 1], [0]),
        ([1, 1], [7, 8], [0, 1], [0]),
        ([1, 2], [7, 8], [0, 1], []),  # a filter has left out what was between them
        ([1, 1], [7, 8], [2, 1], []),  # the second row of a message of several rows
    ],
)
def test_rows_of_two_messages_are_an_update_if_they_have_one_key(
    ids: list[int], positions: list[int], subs: list[int], pairs: list[int]
) -> None:
    schema = SourceSchema("aliyun", "shop", "orders", (SourceField("id", "LONG"),), ("id",))
    change = ChangeBatch(
        pa.record_batch({"id": ids}),
        np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8),
        np.array(positions, np.int64),
        np.array(subs, np.int32),
        schema,
        np.full(2, -1, np.int64),
    )
    assert image_pairs(change).tolist() == pairs
