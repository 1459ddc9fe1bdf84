"""Statements by the catalog have the same results whatever settings of Spark a user's session has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SETTINGS = [
    ("spark.sql.ansi.enabled", "false"),
    ("spark.sql.session.timeZone", "America/New_York"),
    ("spark.sql.caseSensitive", "true"),
    ("spark.sql.adaptive.enabled", "false"),
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.timestampType", "TIMESTAMP_NTZ"),
    ("spark.sql.execution.arrow.maxRecordsPerBatch", "3"),
    ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
]
STATEMENTS = (
    "CREATE TABLE {t} (id INT NOT NULL, Name STRING, c CHAR(5), d DECIMAL(12, 3), f FLOAT, ts TIMESTAMP_LTZ,"
    " n TIMESTAMP_NTZ, b BINARY, a ARRAY<STRING>, m MAP<STRING, INT>, r STRUCT<x: INT, Y: STRING>, p STRING)"
    " PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '2')",
    "INSERT INTO {t} SELECT id, concat('n', id), 'ab', id * 1.5, id * 0.5, timestamp_seconds(1700000000 + id),"
    " TIMESTAMP_NTZ '2024-01-01 00:00:00', X'0102', array('q', concat('w', id)), map('k', CAST(id AS INT)),"
    " named_struct('x', CAST(id AS INT), 'Y', 'why'), concat('p', id % 3) FROM range(12)",
    "UPDATE {t} SET Name = 'u', d = 7.25 WHERE id IN (3, 4)",
    "DELETE FROM {t} WHERE id = 5 OR ts = timestamp_seconds(1700000007)",
    "MERGE INTO {t} USING (SELECT 1 AS i, 'p1' AS q UNION ALL SELECT 100, 'p9') s ON {t}.id = s.i AND {t}.p = s.q"
    " WHEN MATCHED THEN UPDATE SET c = 'm' WHEN NOT MATCHED THEN INSERT (id, Name, p) VALUES (s.i, 'new', s.q)",
    "INSERT OVERWRITE {t} PARTITION (p = 'p2') SELECT id, Name, c, d, f, ts, n, b, a, m, r FROM {t} WHERE p = 'p1'",
    "CALL lake.sys.compact(table => 'shop.{t}')",
)
QUERIES = (
    "SELECT id, Name, c, d, f, unix_micros(ts), CAST(n AS STRING), hex(b), a, m, r, p FROM {t}",
    "SELECT id FROM {t} WHERE p = 'p1' AND d > 1 AND ts >= timestamp_seconds(1700000002) AND c = 'ab'",
    "SELECT p, count(*), sum(id), max(Name) FROM {t} GROUP BY p",
)


def results(spark: SparkSession, table: str) -> list[list[str]]:
    """Return the rows of all queries after all statements, sorted."""
    for statement in STATEMENTS:
        spark.sql(statement.format(t=table))
    return [sorted(map(str, spark.sql(query.format(t=table)).collect())) for query in QUERIES]


@pytest.fixture(scope="module")
def usual(spark: SparkSession) -> list[list[str]]:
    found = results(spark, "usual")
    assert [len(rows) for rows in found] == [11, 2, 4]
    return found


@pytest.fixture(params=SETTINGS, ids=[f"{key}={value}" for key, value in SETTINGS])
def changed(spark: SparkSession, request: pytest.FixtureRequest, usual: list[list[str]]) -> Iterator[SparkSession]:
    key, value = request.param
    before = spark.conf.get(key)
    spark.conf.set(key, value)
    yield spark
    spark.conf.set(key, before)


def test_results_do_not_depend_on_a_setting(
    changed: SparkSession, usual: list[list[str]], request: pytest.FixtureRequest
) -> None:
    number = SETTINGS.index(request.node.callspec.params["changed"])
    assert results(changed, f"t{number}") == usual
