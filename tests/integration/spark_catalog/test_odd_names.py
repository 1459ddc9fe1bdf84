"""Columns whose names have to be in backquotes: in conditions, keys, partitions and statements that change rows."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark_catalog.statements import refusal, rows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("keyed", [False, True], ids=["without a key", "keyed"])
@pytest.mark.parametrize("name", ["a b", "语", "a`b", "a.b", "a'b", "select"])
def test_conditions_and_changes(spark: SparkSession, name: str, keyed: bool) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    spark.sql("DROP TABLE IF EXISTS odd")
    key = f", PRIMARY KEY (k, {quoted}) NOT ENFORCED" if keyed else ""
    spark.sql(f"CREATE TABLE odd (k INT, {quoted} STRING, v INT{key})")
    spark.sql("INSERT INTO odd VALUES (1, 'x', 10), (2, 'y', 20), (3, 'z', NULL)")

    assert rows(spark, f"SELECT k FROM odd WHERE {quoted} = 'x'") == [(1,)]
    assert rows(spark, f"SELECT v FROM odd WHERE {quoted} IN ('y', 'z') AND k < 3") == [(20,)]
    assert rows(spark, f"SELECT k FROM odd WHERE {quoted} IS NULL") == []
    spark.sql(f"UPDATE odd SET v = 11 WHERE {quoted} = 'x'")
    source = f"(SELECT 2 AS k, 'y' AS {quoted}, 21 AS v) s"
    on = f"t.k = s.k AND t.{quoted} = s.{quoted}"
    spark.sql(f"MERGE INTO odd t USING {source} ON {on} WHEN MATCHED THEN UPDATE SET v = s.v")
    spark.sql(f"DELETE FROM odd WHERE {quoted} = 'z' OR {quoted} IS NULL")
    assert rows(spark, f"SELECT k, {quoted}, v FROM odd") == [(1, "x", 11), (2, "y", 21)]
    if not keyed:
        spark.sql(f"UPDATE odd SET {quoted} = 'w' WHERE {quoted} = 'y'")
        assert rows(spark, f"SELECT {quoted} FROM odd WHERE {quoted} > 'v'") == [("w",), ("x",)]


def test_partitions(spark: SparkSession) -> None:
    spark.sql("DROP TABLE IF EXISTS odd")
    columns = "k INT, `d t` STRING, v INT, PRIMARY KEY (k, `d t`) NOT ENFORCED"
    spark.sql(f"CREATE TABLE odd ({columns}) PARTITIONED BY (`d t`)")
    spark.sql("INSERT INTO odd VALUES (1, 'x', 1), (2, 'y', 2), (3, 'z', 3)")

    assert rows(spark, "SELECT k FROM odd WHERE `d t` = 'x'") == [(1,)]
    spark.sql("INSERT OVERWRITE odd PARTITION (`d t` = 'y') SELECT 9, 9")
    spark.sql("ALTER TABLE odd DROP PARTITION (`d t` = 'x')")
    spark.sql("TRUNCATE TABLE odd PARTITION (`d t` = 'z')")
    assert rows(spark, "SELECT k, v, `d t` FROM odd") == [(9, 9, "y")]
    assert rows(spark, "SHOW PARTITIONS odd") == [("d t=y",)]


def test_a_name_of_three_parts_is_refused_and_a_name_with_a_dot_is_quoted(spark: SparkSession) -> None:
    spark.sql("DROP TABLE IF EXISTS lake.shop.`a.b`")
    for statement in (
        "CREATE TABLE lake.shop.a.b (id INT)",
        "CREATE DATABASE lake.shop.a",
        "SELECT * FROM lake.shop.a.b",
    ):
        assert "lake.shop.`a.b`" in (told := refusal(spark, statement)) or "have no dots" in told
    spark.sql("CREATE TABLE lake.shop.`a.b` AS SELECT 1 AS id")
    assert rows(spark, "SELECT * FROM lake.shop.`a.b`") == [(1,)]
    spark.sql("DROP TABLE lake.shop.`a.b`")
