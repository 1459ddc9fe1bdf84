"""Values that Spark's INSERT, UPDATE and MERGE store in columns of other types, as docs/sql.md compares them."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark_catalog.statements import refusal, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = "id INT, bo BOOLEAN, i INT, d DATE, ts TIMESTAMP_NTZ"
STATEMENTS = {
    "insert": "INSERT INTO stored (id, {column}) SELECT 1, {value}",
    "update": "UPDATE stored SET {column} = {value} WHERE id = 1",
    "merge": "MERGE INTO stored USING (SELECT 1 AS k) AS s ON k = id WHEN MATCHED THEN UPDATE SET {column} = {value}",
}


@pytest.fixture(scope="module")
def stored(spark: SparkSession) -> str:
    spark.sql(f"CREATE TABLE stored ({COLUMNS}, PRIMARY KEY (id))")
    spark.sql("INSERT INTO stored (id) VALUES (1)")
    return "stored"


@pytest.mark.parametrize("statement", STATEMENTS)
def test_texts_and_numbers_are_stored_by_their_types(spark: SparkSession, stored: str, statement: str) -> None:
    for column, value, result in (
        ("i", "1.5", 1),
        ("d", "TIMESTAMP_NTZ '2024-02-29 12:00:00'", date(2024, 2, 29)),
    ):
        spark.sql(STATEMENTS[statement].format(column=column, value=value))
        assert rows(spark, f"SELECT {column} FROM {stored}") == [(result,)]
    for column, value in (
        ("bo", "'yes'"),
        ("bo", "'true'"),
        ("bo", "5"),
        ("i", "'12'"),
        ("i", "'1.9'"),
        ("d", "'2024-02-29 12:00'"),
        ("d", "'2024-02-29'"),
        ("ts", "'2024-02-29 12:00:00+02:00'"),
    ):
        assert "CANNOT_SAFELY_CAST" in refusal(spark, STATEMENTS[statement].format(column=column, value=value)), value
    assert rows(spark, f"SELECT bo FROM {stored}") == [(None,)]
