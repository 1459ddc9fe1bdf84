"""CHAR and VARCHAR in Spark SQL: lengths are checked, CHAR is padded, and the types last."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.table.catalog.catalog import Catalog
from tests.integration.spark_catalog.statements import refusal, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def texts(spark: SparkSession) -> str:
    spark.sql(
        "CREATE TABLE texts (id INT, c CHAR(2), v VARCHAR(2), n STRUCT<`a b`: VARCHAR(3), m: MAP<STRING, CHAR(2)>>)"
    )
    spark.sql("INSERT INTO texts VALUES (1, 'a', 'b', struct('abc', map('k', 'x')))")
    return "texts"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO texts VALUES (2, 'abc', 'b', NULL)",
        "INSERT INTO texts (id, v) VALUES (2, 'abc')",
        "INSERT INTO texts VALUES (2, 'a', 'b', struct('abcd', NULL))",
        "UPDATE texts SET c = 'abc'",
        "UPDATE texts SET v = concat(v, 'bc')",
        "MERGE INTO texts USING (SELECT 1 AS id, 'abc' AS v) s ON texts.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
    ],
)
def test_a_text_that_is_too_long_is_refused(spark: SparkSession, texts: str, statement: str) -> None:
    assert "EXCEED_LIMIT_LENGTH" in refusal(spark, statement)
    assert rows(spark, f"SELECT id, v FROM {texts}") == [(1, "b")]


def test_char_is_padded_and_found(spark: SparkSession, texts: str) -> None:
    assert rows(spark, f"SELECT c, n.m['k'] FROM {texts} WHERE c = 'a'") == [("a ", "x ")]


def test_the_types_are_those_of_tables_made_from_it(spark: SparkSession, texts: str, catalog: Catalog) -> None:
    spark.sql(f"CREATE TABLE texts_of_query AS SELECT * FROM {texts}")
    spark.sql(f"CREATE TABLE texts_like LIKE {texts}")
    wanted = catalog.table("shop.texts").definition.fields
    assert catalog.table("shop.texts_of_query").definition.fields == wanted
    assert catalog.table("shop.texts_like").definition.fields == wanted
    spark.sql("ALTER TABLE texts_like ALTER COLUMN v TYPE VARCHAR(5)")
    spark.sql("INSERT INTO texts_like (v) VALUES ('abcde')")
    assert rows(spark, "SELECT v FROM texts_like") == [("abcde",)]
    [[created]] = rows(spark, "SHOW CREATE TABLE texts_like")
    assert "VARCHAR(5)" in created


def test_keys_and_partitions_of_char_are_changed(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE char_keys (k VARCHAR(4), c CHAR(3), v INT, PRIMARY KEY (k, c)) PARTITIONED BY (c)")
    spark.sql("INSERT INTO char_keys VALUES ('a', 'b', 1), ('c', 'd', 2)")
    spark.sql("UPDATE char_keys SET v = 5 WHERE k = 'a' AND c = 'b'")
    spark.sql(
        "MERGE INTO char_keys t USING (SELECT 'c' k, 'd' c, 9 v UNION ALL SELECT 'n', 'm', 7) s "
        "ON t.k = s.k AND t.c = s.c WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark, "SELECT * FROM char_keys") == [("a", "b  ", 5), ("c", "d  ", 9), ("n", "m  ", 7)]
    spark.sql("DELETE FROM char_keys WHERE c = 'm'")
    spark.sql("ALTER TABLE char_keys DROP PARTITION (c = 'd')")
    assert rows(spark, "SELECT k FROM char_keys") == [("a",)]
