"""INSERT, reads, time travel, procedures and streams by names in Spark SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit

import penstock
from penstock.table.catalog.catalog import Catalog
from tests.integration.spark_catalog.statements import fresh, refusal, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_insert_by_columns_and_by_name(spark: SparkSession) -> None:
    fresh(spark, "inserted")
    spark.sql("INSERT INTO inserted (dt, id) VALUES ('x', 1)")
    spark.sql("INSERT INTO inserted BY NAME SELECT 'y' dt, 2 id, 3.5 amount")
    spark.sql("INSERT INTO inserted PARTITION (dt = 'z') SELECT 3, 'paid', 1")
    expected = [(1, "new", None, "x"), (2, "new", 3.5, "y"), (3, "paid", 1.0, "z")]
    assert rows(spark, "SELECT * FROM inserted") == expected
    assert "NOT_ENOUGH_DATA_COLUMNS" in refusal(spark, "INSERT INTO inserted SELECT 1, 'x'")


def test_overwrite_static_and_dynamic(spark: SparkSession) -> None:
    fresh(spark, "over", "(1, 'a', 1, 'x')", "(2, 'b', 2, 'y')")
    spark.sql("INSERT OVERWRITE over PARTITION (dt = 'x') SELECT 3, 'c', 3")
    assert rows(spark, "SELECT id FROM over") == [(2,), (3,)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql("INSERT OVERWRITE over SELECT 4, 'd', 4, 'y'")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(spark, "SELECT id FROM over") == [(3,), (4,)]
    spark.sql("INSERT OVERWRITE over SELECT * FROM over WHERE id = 4")
    assert rows(spark, "SELECT id FROM over") == [(4,)]


def test_rows_are_replaced_by_the_values_of_partitions(spark: SparkSession) -> None:
    fresh(spark, "replaced_rows", "(1, 'a', 1, 'x')", "(2, 'b', 2, 'y')")
    spark.sql("INSERT INTO replaced_rows REPLACE WHERE DT = 'x' SELECT 3, 'c', 3, 'x'")
    assert rows(spark, "SELECT id FROM replaced_rows") == [(2,), (3,)]
    other = (
        "amount > 1",
        "status = 'b'",
        "dt IN ('x', 'y')",
        "dt = 'x' AND DT = 'y'",
        "dt = 'x' OR dt = 'y'",
        "dt > 'x'",
        "upper(dt) = 'X'",
        "dt = NULL",
        "dt = 'x' AND upper(dt) = 'X'",
    )
    for condition in other:
        told = refusal(spark, f"INSERT INTO replaced_rows REPLACE WHERE {condition} SELECT 4, 'd', 4, 'y'")
        assert "or DELETE the rows and then INSERT" in told
    with pytest.raises(PySparkException, match="or DELETE the rows and then INSERT"):
        spark.table("replaced_rows").writeTo("replaced_rows").overwrite(col("amount") > 1)
    assert rows(spark, "SELECT id FROM replaced_rows") == [(2,), (3,)]


def test_time_travel_and_read_options(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "past", "(1, 'new', 1, 'a')")
    catalog.table("shop.past").create_tag("monday")
    spark.sql("UPDATE past SET status = 'paid'")
    spark.sql("ALTER TABLE past ADD COLUMN extra INT")
    assert rows(spark, "SELECT * FROM past VERSION AS OF 1") == [(1, "new", 1.0, "a")]
    assert rows(spark, "SELECT status FROM past VERSION AS OF 'monday'") == [("new",)]
    assert rows(spark, "SELECT status FROM past TIMESTAMP AS OF current_timestamp()") == [("paid",)]
    assert "no snapshot as old as" in refusal(spark, "SELECT * FROM past TIMESTAMP AS OF '2020-01-01'")
    assert "no tag 'tuesday'" in refusal(spark, "SELECT * FROM past VERSION AS OF 'tuesday'")
    assert rows(spark, "SELECT status FROM past WITH (`scan.snapshot-id` = '1')") == [("new",)]
    kinds = rows(spark, "SELECT * FROM past WITH (`incremental-between` = '1,2')")
    assert kinds == [("+U", 1, "paid", 1.0, "a", None), ("-U", 1, "new", 1.0, "a", None)]
    assert "did you mean scan.snapshot-id?" in refusal(spark, "SELECT * FROM past WITH (`scan.snapshotid` = '1')")
    assert spark.read.option("scan.tag-name", "monday").table("lake.shop.past").columns == [
        "id",
        "status",
        "amount",
        "dt",
    ]


def test_time_travel_by_the_options_of_spark(spark: SparkSession) -> None:
    fresh(spark, "travelled", "(1, 'a', 1, 'x')")
    spark.sql("INSERT INTO travelled VALUES (2, 'b', 2, 'x')")
    assert spark.read.option("versionAsOf", "1").table("travelled").count() == 1
    assert spark.read.option("timestampAsOf", "2999-01-01").table("travelled").count() == 2
    assert "no snapshot as old" in refusal(spark, "SELECT * FROM travelled WITH (`timestampAsOf` = '2001-01-01')")


def test_system_tables_and_branches(spark: SparkSession) -> None:
    fresh(spark, "parts", "(1, 'new', 1, 'a')")
    spark.sql("CALL lake.sys.create_tag(table => 'shop.parts', tag => 't1', snapshot => 1)")
    spark.sql("CALL lake.sys.create_branch('shop.parts', 'b1', 't1')")
    spark.sql("INSERT INTO `parts$branch_b1` VALUES (9, 'b', 1, 'a')")
    assert rows(spark, "SELECT id FROM `parts$branch_b1`") == [(1,), (9,)]
    assert rows(spark, "SELECT id FROM parts") == [(1,)]
    assert rows(spark, "SELECT snapshot_id FROM lake.shop.`parts$snapshots`") == [(1,)]
    assert rows(spark, "SELECT snapshot_id FROM `parts$branch_b1$snapshots` WHERE snapshot_id > 1") == [(2,)]
    assert rows(spark, "SELECT rowkind, id FROM `parts$audit_log`") == [("+I", 1)]
    assert "no system table 'nothing'" in refusal(spark, "SELECT * FROM `parts$nothing`")
    assert "does not support append" in refusal(spark, "INSERT INTO `parts$files` SELECT * FROM `parts$files`")


def test_procedures(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "kept", "(1, 'new', 1, 'a')")
    spark.sql("INSERT INTO kept VALUES (2, 'new', 1, 'a')")
    assert rows(spark, "CALL lake.sys.rollback('shop.kept', '1')") == [("removed snapshot 2",), ("snapshot 1",)]
    assert rows(spark, "SELECT id FROM kept") == [(1,)]
    assert rows(spark, "CALL lake.sys.compact(table => 'lake.shop.kept')")[0][0].startswith("snapshot")
    spark.sql("CALL lake.sys.create_tag(table => 'shop.kept', tag => 'a', snapshot_id => 1, time_retained => '1 d')")
    spark.sql("CALL lake.sys.create_tag(table => 'shop.kept', tag => 'b', snapshot => 1)")
    spark.sql("CALL lake.sys.rename_tag(table => 'shop.kept', tagName => 'b', targetTagName => 'c')")
    assert catalog.table("shop.kept").tags == {"a": 1, "c": 1}
    spark.sql("CALL lake.sys.reset_consumer(table => 'shop.kept', consumerId => 'me', nextSnapshotId => 1)")
    assert catalog.table("shop.kept").consumers == {"me": 1}
    assert "needs the argument 'consumer_id'" in refusal(spark, "CALL lake.sys.reset_consumer(table => 'shop.kept')")
    assert rows(spark, "CALL lake.sys.rollback_to('shop.kept', 'a')")[0][0].startswith("removed snapshot")
    assert "did you mean compact?" in refusal(spark, "CALL lake.sys.compakt('shop.kept')")
    spark.sql("CALL lake.sys.create_tag('kept', 't')")
    assert catalog.table("shop.kept").tags["t"] == 1
    assert "there is no table\n  path: " in refusal(spark, "CALL lake.sys.create_tag('none', 't')")
    for statement in ("SHOW PROCEDURES", "SHOW PROCEDURES IN lake.sys"):
        assert ("lake", ["sys"], "compact") in [(row[0], row[1], row[3]) for row in spark.sql(statement).collect()]


def test_dataframes_write_to_names(spark: SparkSession) -> None:
    fresh(spark, "framed")
    frame = spark.createDataFrame(
        [(1, "df", None, "a"), (2, "df", None, "b")], "id INT, status STRING, amount DECIMAL(10, 2), dt STRING"
    )
    frame.writeTo("lake.shop.framed").append()
    source = spark.createDataFrame([(1, "merged"), (3, "inserted")], "sid INT, s STRING")
    merge = source.mergeInto("lake.shop.framed", expr("id = sid"))
    merge = merge.whenMatched().update({"status": col("s")})
    merge.whenNotMatched().insert(
        {"id": col("sid"), "status": col("s"), "dt": lit("a"), "amount": lit(None).cast("decimal(10, 2)")}
    ).merge()
    assert rows(spark, "SELECT id, status FROM framed") == [(1, "merged"), (2, "df"), (3, "inserted")]
    frame.where("dt = 'a'").writeTo("lake.shop.framed").overwritePartitions()
    assert rows(spark, "SELECT id, status FROM framed") == [(1, "df"), (2, "df")]
    frame.selectExpr("id k", "status").writeTo("lake.shop.made").using("paimon").tableProperty(
        "primary-key", "k"
    ).create()
    assert spark.table("lake.shop.made").count() == 2


def test_a_frame_shows_the_newest_rows_each_time_it_runs(spark: SparkSession) -> None:
    fresh(spark, "seen", "(1, 'new', 1, 'a')")
    frame = spark.table("lake.shop.seen")
    assert frame.count() == 1
    spark.sql("INSERT INTO seen VALUES (2, 'new', 1, 'a')")
    assert frame.count() == 2


def streamed(frame: DataFrame, show: Callable[[], list[tuple[object, ...]]], **target: str) -> list[tuple[object, ...]]:
    writer = frame.writeStream.trigger(availableNow=True)
    if "table" in target:
        query = writer.option("checkpointLocation", target["checkpoint"]).toTable(target["table"])
    else:
        query = writer.format("memory").queryName(target["name"]).start()
    query.awaitTermination()
    return show()


def test_streams_by_name(spark: SparkSession, tmp_path: Path) -> None:
    fresh(spark, "flow", "(1, 'new', 1, 'a')")
    spark.sql("UPDATE flow SET status = 'paid'")
    plain = spark.readStream.table("lake.shop.flow").select("id", "status")
    spark.sql("CREATE TABLE sink (id INT, status STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1')")
    target = {"table": "lake.shop.sink", "checkpoint": str(tmp_path / "checkpoint")}
    assert streamed(plain, lambda: rows(spark, "SELECT * FROM sink"), **target) == [(1, "paid")]
    options = "`rowkind` = 'true', `scan.mode` = 'from-snapshot', `scan.snapshot-id` = '2'"
    kinds = spark.sql(f"SELECT rowkind, id, status FROM STREAM lake.shop.flow WITH ({options})")
    found = streamed(kinds, lambda: rows(spark, "SELECT * FROM kinds"), name="kinds")
    assert found == [("+U", 1, "paid"), ("-U", 1, "new")]


def test_a_stream_does_not_lose_a_column_that_its_target_lacks(spark: SparkSession, tmp_path: Path) -> None:
    fresh(spark, "wide", "(1, 'new', 1, 'a')")
    spark.sql("CREATE TABLE narrow (id INT, status STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1')")
    stream = spark.readStream.table("lake.shop.wide").select("id", "status", "dt")
    target = {"table": "lake.shop.narrow", "checkpoint": str(tmp_path / "checkpoint")}
    with pytest.raises(PySparkException, match="the table has no column 'dt'"):
        streamed(stream, list, **target)
    assert rows(spark, "SELECT * FROM narrow") == []


def test_a_plan_shows_the_filters_that_are_pushed(spark: SparkSession) -> None:
    fresh(spark, "planned", "(1, 'a', 1, 'x')")
    [[plan]] = rows(spark, "EXPLAIN SELECT id FROM planned WHERE dt = 'x' AND status LIKE 'a%'")
    assert "PushedFilters: [" in plan
    assert "EqualTo(dt,x), StringStartsWith(status,a)]" in plan
    assert "amount" not in plan


def test_plans_read_few_columns_and_broadcast_small_tables(spark: SparkSession) -> None:
    fresh(spark, "planned", "(1, 'new', 1, 'a')")
    [[plan]] = rows(spark, "EXPLAIN SELECT p.status FROM planned p JOIN planned q ON p.id = q.id WHERE p.dt = 'a'")
    scans = [line for line in plan.splitlines() if "BatchScan" in line]
    assert all("amount" not in line for line in scans)
    assert len(scans) == 2
    assert "BroadcastHashJoin" in plan
    assert "Filter (dt" not in plan


def test_functions_read_the_changes_of_a_table(spark: SparkSession) -> None:
    fresh(spark, "changing", "(1, 'new', 1, 'a')")
    spark.sql("INSERT INTO changing VALUES (2, 'new', 1, 'b')")
    later = [("+I", 2, "b")]
    for table in ("changing", "shop.changing", "`lake`.shop.`changing`"):
        assert rows(spark, f"SELECT rowkind, id, dt FROM paimon_incremental_query('{table}', 1, 2)") == later
    both = "paimon_incremental_between_timestamp('changing', '2020-01-01 00:00:00', '2999-01-01 00:00:00')"
    assert rows(spark, f"SELECT c.id FROM {both} c JOIN changing USING (id)") == [(1,), (2,)]
    assert rows(spark, "SELECT id FROM paimon_incremental_to_auto_tag('changing', '2026-01-02')") == []
    text = refusal(spark, "SELECT * FROM paimon_incremental_query('changing', 1)")
    assert "paimon_incremental_query('TABLE', 'START', 'END')" in text
    assert "neither a snapshot id nor a tag" in refusal(
        spark, "SELECT * FROM paimon_incremental_query('changing', 1, 'none')"
    )


def test_a_query_reads_the_newest_partition(spark: SparkSession) -> None:
    fresh(spark, "days", "(1, 'new', 1, 'a')", "(2, 'new', 1, 'b')")
    assert rows(spark, "SELECT id, sys.max_pt('days') FROM days WHERE dt = sys.max_pt('shop.days')") == [(2, "b")]
    [[plan]] = rows(spark, "EXPLAIN SELECT id FROM days WHERE dt = lake.sys.max_pt('days')")
    assert "EqualTo(dt,b)" in plan
    # A view has the database in which it was created, also where Spark plans its rows in another session.
    spark.sql("CREATE TEMPORARY VIEW newest AS SELECT id FROM days WHERE dt = sys.max_pt('days')")
    spark.sql("CREATE DATABASE without_days")
    spark.sql("USE without_days")
    assert rows(spark, "SELECT * FROM newest") == [(2,)]
    spark.sql("USE shop")
    spark.sql("CACHE TABLE newest")
    spark.sql("INSERT INTO days VALUES (3, 'new', 1, 'c')")
    assert rows(spark, "SELECT * FROM newest") == [(3,)]
    spark.sql("DROP VIEW newest")
    spark.sql("TRUNCATE TABLE days")
    assert rows(spark, "SELECT sys.max_pt('days')") == [(None,)]
    spark.sql("CREATE TABLE unparted (id INT)")
    assert "needs a table with partitions" in refusal(spark, "SELECT sys.max_pt('unparted')")
    spark.sql("INSERT INTO days VALUES (1, 'days', 1, 'a')")
    for text in ("SELECT sys.max_pt(status) FROM days", "SELECT id FROM days WHERE dt = sys.max_pt(status)"):
        refused = refusal(spark, text)
        assert refused.startswith("sys.max_pt needs the name of a table as a literal"), refused


def test_functions_that_the_catalog_does_not_have_are_named(spark: SparkSession) -> None:
    said = refusal(spark, "SELECT sys.path_to_descriptor('file:///path')")
    assert said.startswith("there is no function sys.path_to_descriptor: tables have no BLOB columns")
    assert "as STRING" in said
    assert "CREATE TEMPORARY FUNCTION" in refusal(spark, "SELECT lake.sys.area(1, 2)")
    assert "UNRESOLVED_ROUTINE" in refusal(spark, "SELECT shop.area(1, 2)")


def test_statistics_are_computed_by_the_statement_of_spark(spark: SparkSession) -> None:
    fresh(spark, "counted", "(1, 'new', 1, 'a'), (2, 'old', 1, 'b')")
    spark.sql("EXPLAIN ANALYZE TABLE counted COMPUTE STATISTICS").collect()
    assert rows(spark, "SELECT * FROM `counted$statistics`") == []
    assert rows(spark, "ANALYZE TABLE counted COMPUTE STATISTICS") == []
    assert rows(spark, "SELECT mergedRecordCount FROM `counted$statistics`") == [(2,)]
    assert rows(spark, "SELECT count(*) FROM `counted$snapshots`") == [(2,)]
    for columns, found in (("COLUMNS STATUS", {"status"}), ("ALL COLUMNS", {"id", "status", "amount", "dt"})):
        spark.sql(f"ANALYZE TABLE lake.shop.counted COMPUTE STATISTICS FOR {columns}")
        [[text]] = rows(spark, "SELECT colstat FROM `counted$statistics`")
        assert json.loads(text).keys() == found
    spark.sql("CREATE TABLE commas (`a,b` INT, c INT) TBLPROPERTIES ('bucket' = '-1')")
    spark.sql("INSERT INTO commas VALUES (1, 2)")
    for columns, found in (("ALL COLUMNS", {"a,b", "c"}), ("COLUMNS `a,b`", {"a,b"})):
        spark.sql(f"ANALYZE TABLE commas COMPUTE STATISTICS FOR {columns}")
        [[text]] = rows(spark, "SELECT colstat FROM `commas$statistics`")
        assert json.loads(text).keys() == found
    assert "remove NOSCAN" in refusal(spark, "ANALYZE TABLE counted COMPUTE STATISTICS NOSCAN")
    assert "remove PARTITION" in refusal(spark, "ANALYZE TABLE counted PARTITION (dt = 'a') COMPUTE STATISTICS")
    assert "for each table" in refusal(spark, "ANALYZE TABLES IN shop COMPUTE STATISTICS")
    assert "has nothing to do" in refusal(spark, "MSCK REPAIR TABLE counted")


def test_all_threads_of_a_driver_use_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    """A notebook server runs cells in several threads, and a query the function of foreachBatch in one of Spark."""
    penstock.register(spark, catalog="threads", warehouse=tmp_path / "warehouse", options={"local.sync": "false"})
    with ThreadPoolExecutor(1) as thread:
        thread.submit(copy_by_a_stream, spark, tmp_path / "checkpoint").result()
    assert rows(spark, "SELECT id FROM threads.shop.seen") == [(1,)]


def copy_by_a_stream(spark: SparkSession, checkpoint: Path) -> None:
    spark.sql("CREATE DATABASE threads.shop")
    spark.sql("CREATE TABLE threads.shop.orders AS SELECT 1 id")
    spark.sql("CREATE TABLE threads.shop.seen (id INT)")

    def insert(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql("INSERT INTO threads.shop.seen SELECT id FROM batch")

    read = spark.readStream.table("threads.shop.orders").writeStream.foreachBatch(insert)
    read.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
