"""The metadata columns of Paimon in queries of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.integration.spark_catalog.statements import fresh, refusal, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_rows_have_their_file_position_partition_and_bucket(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE places (id INT, v STRING, d DATE, n INT) PARTITIONED BY (d, n)")
    spark.sql("INSERT INTO places SELECT id, 'a', DATE '2026-01-31', IF(id < 2, 1, NULL) FROM range(0, 4, 1, 1)")
    paths = "SELECT file_path FROM `places$files`"
    joined = rows(spark, f"SELECT id, __paimon_row_index FROM places WHERE __paimon_file_path IN ({paths})")
    assert joined == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert len(rows(spark, "SELECT DISTINCT __paimon_file_path FROM places")) == 2
    assert rows(spark, "SELECT id, __paimon_partition.n, __paimon_bucket FROM places WHERE id > 0") == [
        (1, 1, 0),
        (2, None, 0),
        (3, None, 0),
    ]
    assert rows(spark, "SELECT CAST(__paimon_partition.d AS STRING), count(*) FROM places GROUP BY 1") == [
        ("2026-01-31", 4)
    ]
    chosen = "__paimon_row_index = 1 AND __paimon_partition.n = 1 AND v = 'a' AND __paimon_bucket = 0"
    assert rows(spark, f"SELECT id FROM places WHERE {chosen}") == [(1,)]
    assert spark.table("places").columns == ["id", "v", "d", "n"]


def test_streams_have_no_metadata(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE changed (id INT)")
    stream = spark.readStream.table("changed").select("id", "__paimon_bucket").writeStream.format("noop")
    with pytest.raises(PySparkException, match=r"a stream has no metadata columns .*__paimon_bucket"):
        stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()


def test_a_table_without_partitions_has_an_empty_partition(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE whole (id INT)")
    spark.sql("INSERT INTO whole VALUES (7)")
    assert rows(spark, "SELECT id, __paimon_partition, __paimon_bucket FROM whole") == [(7, (), 0)]
    assert rows(spark, "SELECT count(*) FROM whole WHERE __paimon_row_index = 0") == [(1,)]


def test_rows_that_are_merged_by_key_have_no_file(spark: SparkSession) -> None:
    fresh(spark, "merged", "(1, 'a', 1, 'x')", "(2, 'b', 2, 'y')")
    spark.sql("INSERT INTO merged VALUES (1, 'c', 1, 'x')")
    found = rows(spark, "SELECT status, __paimon_partition.dt, __paimon_bucket IN (0, 1) FROM merged")
    assert found == [("b", "y", True), ("c", "x", True)]
    for column in ("__paimon_file_path", "__paimon_row_index"):
        assert "`t$files`" in refusal(spark, f"SELECT id, {column} FROM merged")
    told = refusal(spark, "SELECT __paimon_bucket FROM merged WITH (`incremental-between` = '1,2')")
    assert "read with their row kinds have no __paimon_bucket" in told


def test_a_column_of_the_table_hides_the_metadata_of_its_name(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE hidden (id INT, __paimon_bucket STRING)")
    spark.sql("INSERT INTO hidden VALUES (1, 'mine')")
    assert rows(spark, "SELECT __paimon_bucket, __paimon_row_index FROM hidden") == [("mine", 0)]
    assert rows(spark, "SELECT id FROM hidden WHERE __paimon_bucket = 'mine'") == [(1,)]


def test_rows_of_a_tracked_table_have_their_id(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE tracked (id INT) TBLPROPERTIES ('row-tracking.enabled' = 'true')")
    spark.sql("INSERT INTO tracked VALUES (7), (8)")
    spark.sql("INSERT INTO tracked VALUES (9)")
    ids = [(row[0], row[1]) for row in rows(spark, "SELECT id, _ROW_ID FROM `tracked$row_tracking`")]
    assert rows(spark, "SELECT id, _row_id FROM tracked") == ids
    assert rows(spark, "SELECT id FROM tracked WHERE _ROW_ID = 2 AND __paimon_row_index = 0") == [(9,)]
    assert spark.table("tracked").columns == ["id"]


@pytest.mark.parametrize(
    ("key", "column"), [("", "_ROW_ID"), (", PRIMARY KEY (id)", "_ROW_ID"), ("", "_SEQUENCE_NUMBER")]
)
def test_ids_of_other_rows_are_refused(spark: SparkSession, key: str, column: str) -> None:
    spark.sql("DROP TABLE IF EXISTS untracked")
    spark.sql(f"CREATE TABLE untracked (id INT NOT NULL{key})")
    told = refusal(spark, f"SELECT id FROM untracked WHERE {column} = 1")
    assert f"rows of the table have no {column}" in told
    assert "`t$row_tracking`" in told
