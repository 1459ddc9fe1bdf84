"""UPDATE, DELETE and MERGE of Spark with metadata columns of the rows that they change."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark_catalog.statements import refusal, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GROUP_FILTER = "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled"
# Spark casts the column where the other side is a BIGINT, and then plans the statement in another way.
ONES = ("1", "1L")
Rows = list[tuple[Any, ...]]


@pytest.fixture
def keyed(spark: SparkSession) -> str:
    """A table with a key, whose rows 0 to 9 are in buckets and partitions."""
    spark.sql("DROP TABLE IF EXISTS keyed")
    spark.sql("""CREATE TABLE keyed (id INT NOT NULL, v STRING, dt STRING NOT NULL, PRIMARY KEY (id, dt))
        PARTITIONED BY (dt) TBLPROPERTIES ('bucket' = '2')""")
    spark.sql("INSERT INTO keyed SELECT id, 'new', IF(id < 8, 'mon', 'tue') FROM range(10)")
    return "keyed"


@pytest.fixture
def keyless(spark: SparkSession) -> str:
    """A table without a key, whose rows 0 to 3 are in one file."""
    spark.sql("DROP TABLE IF EXISTS keyless")
    spark.sql("CREATE TABLE keyless (id INT, v STRING)")
    spark.sql("INSERT INTO keyless SELECT id, 'new' FROM range(0, 4, 1, 1)")
    return "keyless"


def buckets(spark: SparkSession) -> tuple[Rows, Rows]:
    """The rows of the keyed table that are in bucket 1, and the others."""
    found = rows(spark, "SELECT id, v, dt, __paimon_bucket FROM keyed")
    one, other = [row[:3] for row in found if row[3] == 1], [row[:3] for row in found if row[3] != 1]
    assert one
    assert other
    return one, other


@pytest.mark.parametrize("one", ONES)
def test_rows_of_a_bucket_are_deleted_and_updated(spark: SparkSession, keyed: str, one: str) -> None:
    in_one, others = buckets(spark)
    spark.sql(f"UPDATE {keyed} SET v = concat(v, __paimon_bucket, __paimon_partition.dt) WHERE __paimon_bucket = {one}")
    assert rows(spark, "SELECT * FROM keyed") == sorted(
        others + [(number, f"new1{dt}", dt) for number, _, dt in in_one], key=repr
    )
    spark.sql(f"DELETE FROM {keyed} WHERE __paimon_bucket = {one}")
    assert rows(spark, "SELECT * FROM keyed") == others
    spark.sql(f"DELETE FROM {keyed} WHERE __paimon_partition.dt = 'mon'")
    assert rows(spark, "SELECT * FROM keyed") == [row for row in others if row[2] == "tue"]


@pytest.mark.parametrize("one", ONES)
def test_rows_at_a_place_of_a_file_are_deleted_and_updated(spark: SparkSession, keyless: str, one: str) -> None:
    spark.sql(f"UPDATE {keyless} SET v = __paimon_file_path WHERE __paimon_row_index = {one}")
    assert rows(spark, "SELECT id FROM keyless WHERE v LIKE '%.parquet'") == [(1,)]
    # The file was written again without the row.
    spark.sql(f"DELETE FROM {keyless} WHERE __paimon_row_index = {one} AND __paimon_bucket = 0")
    assert rows(spark, "SELECT id FROM keyless") == [(0,), (1,), (3,)]


@pytest.mark.parametrize("type_", ["INT", "BIGINT"])
def test_merge_joins_by_metadata(spark: SparkSession, keyless: str, keyed: str, type_: str) -> None:
    source = f"(SELECT CAST(i AS {type_}) i, w FROM VALUES (1, 'one'), (2, 'two'), (9, 'nine') AS v(i, w))"
    spark.sql(f"""MERGE INTO {keyless} t USING {source} s ON t.__paimon_row_index = s.i
        WHEN MATCHED AND t.__paimon_row_index = 2 THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = concat(s.w, t.__paimon_bucket)
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.i, s.w)""")
    assert rows(spark, "SELECT * FROM keyless") == [(0, "new"), (1, "one0"), (3, "new"), (9, "nine")]
    in_one, others = buckets(spark)
    spark.sql(f"""MERGE INTO {keyed} t USING (SELECT * FROM {source} WHERE i = 1) s ON t.__paimon_bucket = s.i
        WHEN MATCHED THEN UPDATE SET v = s.w
        WHEN NOT MATCHED BY SOURCE AND t.__paimon_partition.dt = 'mon' THEN DELETE""")
    assert rows(spark, "SELECT * FROM keyed") == sorted(
        [(number, "one", dt) for number, _, dt in in_one] + [row for row in others if row[2] == "tue"], key=repr
    )


def test_merge_finds_rows_again_by_what_a_query_returned(spark: SparkSession, keyless: str, keyed: str) -> None:
    chosen = f"SELECT __paimon_file_path p, __paimon_row_index i FROM {keyless} WHERE id IN (1, 3)"
    spark.sql(f"""MERGE INTO {keyless} t USING ({chosen}) s ON t.__paimon_file_path = s.p AND t.__paimon_row_index = s.i
        WHEN MATCHED THEN UPDATE SET v = 'found'""")
    assert rows(spark, "SELECT id FROM keyless WHERE v = 'found'") == [(1,), (3,)]
    spark.sql(f"DELETE FROM {keyless} WHERE id IN (SELECT id FROM {keyless} WHERE __paimon_row_index = 0)")
    spark.sql(f"""MERGE INTO {keyed} t USING (SELECT *, __paimon_bucket b FROM {keyed} WHERE id = 9) s
        ON t.__paimon_bucket = s.b AND t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET *""")
    assert len(rows(spark, "SELECT * FROM keyed")) == 10
    source = "(SELECT 9 id, 'star' v, 'tue' dt) s"
    joined = f"MERGE INTO {keyed} t USING {source} ON t.__paimon_bucket < 2 AND t.id = s.id"
    spark.sql(f"{joined} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    assert rows(spark, "SELECT v FROM keyed WHERE id = 9") == [("star",)]


@pytest.mark.parametrize("five", ["5", "5L"])
def test_merge_that_only_inserts(spark: SparkSession, keyless: str, keyed: str, five: str) -> None:
    source = f"(SELECT 77 id, {five} i) s"
    for table, column in ((keyless, "__paimon_row_index"), (keyed, "__paimon_bucket")):
        names, values = ("id, v, dt", "s.id, 'in', 'wed'") if table == "keyed" else ("id, v", "s.id, 'in'")
        insert = f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        spark.sql(f"MERGE INTO {table} t USING {source} ON t.{column} = s.i {insert}")
        spark.sql(f"MERGE INTO {table} t USING {source} ON t.{column} = s.i - {five} {insert}")
        assert rows(spark, f"SELECT id, v FROM {table} WHERE id > 10") == [(77, "in")]


def test_the_setting_of_the_session_is_as_it_was(spark: SparkSession, keyed: str) -> None:
    merge = f"MERGE INTO {keyed} t USING (SELECT id FROM range(3)) s ON t.__paimon_bucket = s.id WHEN MATCHED THEN"
    for value in (None, "true", "false"):
        spark.conf.unset(GROUP_FILTER)
        if value is not None:
            spark.conf.set(GROUP_FILTER, value)
        spark.sql(f"{merge} UPDATE SET v = 'seen'")
        refusal(spark, f"{merge} UPDATE SET v = s.absent")
        # The key is assigned, and the column is cast: Spark cannot plan this.
        refusal(spark, f"{merge} UPDATE SET id = t.id + 1")
        listed = {row.key: row.value for row in spark.sql("SET").collect()}
        assert listed.get(GROUP_FILTER) == value
    spark.conf.unset(GROUP_FILTER)


def test_the_setting_is_as_it_was_after_statements_that_overlap(spark: SparkSession) -> None:
    jvm = spark._jvm
    kind = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass("penstock.spark.GroupFilter")
    none = spark._sc._gateway.new_array(jvm.java.lang.Class, 0)
    maker, *calls = (
        kind.getDeclaredConstructor(none),
        kind.getDeclaredMethod("off", none),
        kind.getDeclaredMethod("on", none),
    )
    for method in (maker, *calls):
        method.setAccessible(True)
    objects = spark._sc._gateway.new_array(jvm.java.lang.Object, 0)
    first, second = (maker.newInstance(objects) for _ in range(2))
    off, on = calls
    spark.sql("SELECT 1")  # makes the session that of this thread
    for before in (None, "true"):
        if before is not None:
            spark.conf.set(GROUP_FILTER, before)
        for call, one in ((off, first), (off, second), (on, first)):
            call.invoke(one, objects)
        assert spark.conf.get(GROUP_FILTER) == "false"
        on.invoke(second, objects)
        assert {row.key: row.value for row in spark.sql("SET").collect()}.get(GROUP_FILTER) == before
    spark.conf.unset(GROUP_FILTER)


def test_merged_rows_have_no_file(spark: SparkSession, keyed: str) -> None:
    for column in ("__paimon_file_path", "__paimon_row_index"):
        told = refusal(spark, f"DELETE FROM {keyed} WHERE {column} = '1'")
        assert "cannot be resolved" in told
        assert column in told
