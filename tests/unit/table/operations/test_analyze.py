"""ANALYZE: statistics of a whole table, in a snapshot that changes no row."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.handle import Table
from tests.invariants import check_invariants


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("shop")
    columns = [
        ("id", "BIGINT NOT NULL"),
        ("name", "STRING"),
        ("price", "DECIMAL(10, 2)"),
        ("day", "DATE"),
        ("tags", "ARRAY<STRING>"),
    ]
    made = catalog.create_table("shop.orders", columns, primary_keys=["id"], options={"bucket": "2"})
    with made.writer() as writer:
        writer.write(
            pa.table(
                {
                    "id": [1, 2, 3],
                    "name": ["a", None, "ccc"],
                    "price": [Decimal("1.50"), Decimal("-2.00"), None],
                    "day": pa.array([0, 1, 1], pa.date32()),
                    "tags": [["x"], None, []],
                }
            )
        )
        writer.commit()
    return made


def test_statistics_equal_those_of_the_rows(table: Table) -> None:
    before = table.scan().to_arrow().sort_by("id")

    snapshot = table.analyze()

    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.total_record_count, snapshot.delta_record_count) == ("ANALYZE", 3, 0)
    (row,) = table.statistics.to_pylist()
    assert (row["snapshot_id"], row["schema_id"], row["mergedRecordCount"]) == (1, 0, 3)
    assert row["mergedRecordSize"] == sum(table.system("files")["file_size_in_bytes"].to_pylist())
    assert json.loads(row["colstat"]) == {
        "id": {"colId": 0, "distinctCount": 3, "min": "1", "max": "3", "nullCount": 0},
        "name": {"colId": 1, "distinctCount": 2, "min": "a", "max": "ccc", "nullCount": 1, "avgLen": 2, "maxLen": 3},
        "price": {"colId": 2, "distinctCount": 2, "min": "-2.00", "max": "1.50", "nullCount": 1},
        "day": {"colId": 3, "distinctCount": 2, "min": "0", "max": "1", "nullCount": 0},
        "tags": {"colId": 4, "nullCount": 1},
    }
    assert table.scan().to_arrow().sort_by("id").equals(before)
    check_invariants(table)


def test_only_requested_columns_are_analyzed(table: Table) -> None:
    table.analyze(["name"])

    assert list(json.loads(table.statistics["colstat"][0].as_py())) == ["name"]


def test_an_unknown_column_is_refused_with_the_nearest(table: Table) -> None:
    with pytest.raises(ConfigError, match="no column 'prize'") as refused:
        table.analyze(["prize"])

    assert refused.value.hint == "did you mean price?"


def test_statistics_are_kept_by_later_commits_and_expired_with_the_last_snapshot_that_names_them(table: Table) -> None:
    table.analyze()
    for number in range(3):
        with table.writer() as writer:
            writer.write(pa.table({"id": [10 + number]}))
            writer.commit()

    assert table.statistics["snapshot_id"].to_pylist() == [1]

    table.analyze()
    table.expire_snapshots(retain_max=1, retain_min=1)

    assert table.statistics["mergedRecordCount"].to_pylist() == [6]
    assert len(list(Path(table.path, "statistics").iterdir())) == 1
    check_invariants(table)


def test_distinct_values_are_estimated_within_a_few_percent(tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("d")
    table = catalog.create_table("d.t", [("n", "BIGINT"), ("few", "INT")])
    rows = np.arange(200_000)
    with table.writer() as writer:
        writer.write(pa.table({"n": rows, "few": pa.array(rows % 7, pa.int32())}))
        writer.commit()

    table.analyze()

    report = json.loads(table.statistics["colstat"][0].as_py())
    assert report["n"]["distinctCount"] == pytest.approx(200_000, rel=0.03)
    assert report["few"]["distinctCount"] == 7


def test_a_table_without_a_snapshot_has_no_statistics(tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("d")

    assert catalog.create_table("d.t", [("n", "BIGINT")]).analyze() is None


def test_an_empty_text_is_no_null_in_the_statistics_of_files(tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    table = catalog.create_table("d.t", [("a", "STRING"), ("b", "STRING")])
    with table.writer() as writer:
        writer.write(pa.table({"a": ["", ""], "b": pa.array([None, None], pa.string())}))
        writer.commit()
    [file] = table.system("files").to_pylist()
    assert file["min_value_stats"] == file["max_value_stats"] == "{a=, b=null}"
