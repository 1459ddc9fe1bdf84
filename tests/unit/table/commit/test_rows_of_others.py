"""A job gets a warning if it begins in a table that adds its rows to those of other jobs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.table.catalog.catalog import Catalog
from penstock.table.commit.rows_of_others import rows_of_others
from penstock.table.handle import Table
from penstock.table.meta.snapshot import PIPELINE

SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
PARTS = {"merge-engine": "partial-update"}
SUM_IN_PARTS = {**PARTS, "fields.g.sequence-group": "n", "fields.n.aggregate-function": "sum"}


def filled(folder: Path, keys: list[str], options: dict[str, str], pipeline: str | None = None) -> Table:
    catalog = Catalog(f"{folder}/warehouse")
    catalog.create_database("d")
    columns = [("id", "INT NOT NULL"), ("n", "BIGINT"), ("g", "INT")]
    buckets = {"bucket": "1"} if keys else {}
    table = catalog.create_table("d.t", columns, primary_keys=keys, options={**buckets, **options})
    with table.writer(commit_user="etl") as writer:
        writer.write(pa.table({"id": pa.array([1], pa.int32()), "n": [2], "g": pa.array([3], pa.int32())}))
        writer.commit(properties={} if pipeline is None else {PIPELINE: pipeline})
    return table


@pytest.mark.parametrize(
    ("keys", "options", "adds"),
    [
        (["id"], {}, False),
        (["id"], PARTS, False),
        (["id"], SUM_IN_PARTS, True),
        (["id"], SUMS, True),
        ([], {}, True),
    ],
    ids=["deduplicate", "partial-update", "partial-update with a sum", "aggregation", "no key"],
)
def test_rows_of_others_matter_where_rows_are_added(
    tmp_path: Path, keys: list[str], options: dict[str, str], adds: bool
) -> None:
    said = rows_of_others(filled(tmp_path, keys, options).store, "shop")
    assert (said is not None) == adds
    assert said is None or "d.t has rows that other jobs wrote (etl)" in said


def test_rows_of_a_pipeline_are_its_own(tmp_path: Path) -> None:
    store = filled(tmp_path, ["id"], SUMS, pipeline="shop").store
    assert rows_of_others(store, "shop") is None
    assert "(shop)" in (rows_of_others(store, "other") or "")


def test_a_table_without_rows_has_none_of_others(tmp_path: Path) -> None:
    catalog = Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("d")
    empty = catalog.create_table("d.empty", [("id", "INT")])
    assert isinstance(empty, Table)
    assert rows_of_others(empty.store, "shop") is None
