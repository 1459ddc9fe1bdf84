"""CALL and DELETE whose units run in jobs of the session: the same tables and errors as in one process."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import penstock
from penstock.errors import PenstockError
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from tests.integration.spark_catalog.statements import refusal, rows
from tests.invariants import check_invariants
from tests.unit.table.operations.test_compact_units import KINDS, made, shape
from tests.unit.table.tables import content

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def tasks(spark: SparkSession, statement: str) -> list[int]:
    """Run a statement, and return how many tasks each stage of its jobs has."""
    spark.sparkContext.setJobGroup(statement, statement)
    try:
        spark.sql(statement).collect()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(statement)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return [stage.numTasks for stage in stages if stage is not None]


def opened(spark: SparkSession, name: str, warehouse: Path) -> None:
    penstock.register(spark, catalog=name, warehouse=warehouse, options={"local.sync": "false"})


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_compactions_make_the_same_tables_as_one_process(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    here, there = (made(tmp_path / place, kind, seed=1) for place in ("here", "there"))
    name = f"compacted_{sorted(KINDS).index(kind)}"
    opened(spark, name, tmp_path / "there")
    for strategy in ("minor", "full"):
        expected = here.compact(full=strategy == "full")
        ran = tasks(spark, f"CALL {name}.sys.compact(table => 'shop.orders', compact_strategy => '{strategy}')")
        assert bool(ran) >= bool(expected)
        assert shape(there.refresh()) == shape(here.refresh())
        assert content(there.refresh()) == content(here.refresh())
    check_invariants(there.refresh())


def test_other_procedures_work_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, "keys")
    before, files = content(table), len(list(Path(table.path).rglob("bucket-*")))
    opened(spark, "others", tmp_path)
    assert tasks(spark, "CALL others.sys.compact_database()")[0] > 1
    (counted,) = tasks(spark, "CALL others.sys.analyze('shop.orders')")
    assert counted > 1
    assert table.refresh().statistics.column("mergedRecordCount").to_pylist() == [len(before)]
    assert tasks(spark, "CALL others.sys.rescale('shop.orders', '2')") != []
    bucket = next(Path(table.path).rglob("bucket-0"))
    (bucket / "data-9.parquet").write_bytes(b"left behind")
    os.utime(bucket / "data-9.parquet", (1, 1))
    statement = "CALL others.sys.remove_orphan_files(`table` => 'shop.orders', older_than => '2000-01-01 00:00:00')"
    assert max(tasks(spark, statement)) > 1
    assert not (bucket / "data-9.parquet").exists()
    assert tasks(spark, "CALL others.sys.create_tag('shop.orders', 'kept')") == []
    assert files > 0
    assert content(table.refresh()) == before
    check_invariants(table.refresh())


def test_arguments_by_place_are_those_of_sql_without_spark(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE lake.shop.placed (id INT PRIMARY KEY) TBLPROPERTIES ('bucket' = '1')")
    spark.sql("INSERT INTO lake.shop.placed VALUES (1)")
    table = catalog.table("shop.placed")
    for beyond in ("'x'", "NULL", "1"):
        said = refusal(spark, f"CALL lake.sys.create_tag('shop.placed', 'a', '1', '1 d', {beyond})")
        assert "create_tag has 4 parameters" in said
        assert "CALL sys.create_tag(table, tag, snapshot_id, time_retained)" in said
    assert "has 4 parameters" in refusal(spark, "CALL lake.sys.create_tag('shop.placed', 'a', NULL, NULL, 1)")
    assert "analyze has 2 parameters" in refusal(spark, "CALL lake.sys.analyze('shop.placed', 'id', 'x')")
    assert table.refresh().tags == {}
    spark.sql("CALL lake.sys.create_tag('shop.placed', 'a', snapshot => 1)")
    # `sink_parallelism`, which has no effect, is behind the others, and the other names of parameters behind it.
    assert rows(spark, "CALL lake.sys.rescale('shop.placed', 2, '', 1, 1)") == [("snapshot 2",)]
    assert "rescale has 5 parameters" in refusal(spark, "CALL lake.sys.rescale('shop.placed', 2, '', 1, 1, 'x')")
    assert table.refresh().tags == {"a": 1}


def test_sorts_and_deletes_of_tables_without_keys_work_in_tasks(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE lake.shop.visits (id INT, dt STRING) PARTITIONED BY (dt)")
    spark.sql("INSERT INTO lake.shop.visits SELECT CAST(-id AS INT), CAST(id % 3 AS STRING) FROM range(300)")
    sort = "CALL lake.sys.compact(`table` => 'shop.visits', order_strategy => 'order', order_by => 'id')"
    assert tasks(spark, sort) == [3]
    assert max(tasks(spark, "DELETE FROM lake.shop.visits WHERE id > -100")) == 3
    kept = catalog.table("shop.visits")
    assert sorted(row["id"] for row in kept.scan().to_arrow().to_pylist()) == list(range(-299, -99))
    check_invariants(kept)


def test_the_error_of_a_unit_is_that_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    table: Table = made(tmp_path, "keys")
    opened(spark, "damaged", tmp_path)
    min(Path(table.path).rglob("data-*")).write_bytes(b"PAR1 this is no file of rows PAR1")
    with pytest.raises(PenstockError) as caught:
        table.compact(full=True)
    snapshots = len(table.refresh().snapshots)
    said = refusal(spark, "CALL damaged.sys.compact('shop.orders')")
    assert str(caught.value).splitlines()[:3] == said.splitlines()[:3]
    assert "Traceback" not in said
    assert len(table.refresh().snapshots) == snapshots


def test_units_of_others_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    class Touch:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {seen}",)

    for folder, mode in ((tmp_path / "penstock-units-others", 0o644), (tmp_path, 0o600)):
        folder.mkdir(exist_ok=True)
        path = folder / "units"
        path.write_bytes(pickle.dumps([Touch()]))
        path.chmod(mode)
        with pytest.raises(PySparkException, match="was not written by the catalog"):
            spark.read.format("penstock").option("action-units", str(path)).load().collect()
        assert not seen.exists()
    link = tmp_path / "penstock-units-others" / "link"
    link.symlink_to(path)
    with pytest.raises(PySparkException, match="Too many levels of symbolic links"):
        spark.read.format("penstock").option("action-units", str(link)).load().collect()
    assert not seen.exists()
    assert rows(spark, "SELECT 1") == [(1,)]
