"""`spark.paimon.KEY`: options of reads that a session sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.integration.spark_catalog.statements import refusal, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key)


@pytest.fixture(scope="module")
def visits(spark: SparkSession) -> str:
    spark.sql("CREATE TABLE visits (id INT, n INT, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1')")
    spark.sql("CREATE TABLE log (id INT)")
    for number in (1, 2):
        spark.sql(f"INSERT INTO visits VALUES ({number}, {number})")
        spark.sql(f"INSERT INTO log VALUES ({number})")
    return "visits"


@pytest.mark.parametrize("table", ["", "lake.shop.visits.", "*.*.visits.", "lake.*.*."])
def test_a_session_reads_a_snapshot(spark: SparkSession, visits: str, table: str) -> None:
    with setting(spark, f"spark.paimon.{table}scan.snapshot-id", "1"):
        assert rows(spark, f"SELECT id FROM {visits}") == [(1,)]
        assert spark.table(visits).count() == 1
        # What the statement names comes first.
        assert rows(spark, f"SELECT id FROM {visits} VERSION AS OF 2") == [(1,), (2,)]
        assert rows(spark, f"SELECT id FROM {visits} WITH (`scan.snapshot-id` = '2')") == [(1,), (2,)]
        assert len(rows(spark, f"SELECT * FROM `{visits}$snapshots`")) == 2
        assert len(rows(spark, f"SELECT * FROM `{visits}$audit_log`")) == 1
        assert len(rows(spark, f"SELECT * FROM `{visits}$audit_log` VERSION AS OF 2")) == 2
    assert rows(spark, f"SELECT id FROM {visits}") == [(1,), (2,)]


def test_an_option_of_one_table_is_not_that_of_another(spark: SparkSession, visits: str) -> None:
    with setting(spark, "spark.paimon.lake.shop.log.scan.snapshot-id", "1"):
        assert rows(spark, f"SELECT id FROM {visits}") == [(1,), (2,)]
        assert rows(spark, "SELECT id FROM log") == [(1,)]


def test_statements_change_the_newest_rows(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE changed (id INT, n INT, PRIMARY KEY (id))")
    spark.sql("INSERT INTO changed VALUES (1, 1)")
    spark.sql("INSERT INTO changed VALUES (2, 2)")
    spark.sql("CREATE TABLE copied (id INT)")
    with setting(spark, "spark.paimon.scan.snapshot-id", "1"):
        spark.sql("INSERT INTO copied SELECT id FROM changed")
        spark.sql("INSERT INTO changed SELECT id + 10, n FROM changed")
        spark.sql("UPDATE changed SET n = 7")
        spark.sql("DELETE FROM changed WHERE id = 1")
        # The source is read at snapshot 1, and the target at the newest one.
        spark.sql("MERGE INTO changed t USING copied s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET n = 9")
        spark.sql("DELETE FROM copied WHERE id = 1")
    assert rows(spark, "SELECT * FROM changed") == [(11, 7), (2, 9)]
    assert rows(spark, "SELECT * FROM copied") == []


def test_other_options_are_refused_with_a_way_out(spark: SparkSession, visits: str) -> None:
    with setting(spark, "spark.paimon.file.block-size", "512M"):
        assert "ALTER TABLE t SET TBLPROPERTIES" in refusal(spark, f"SELECT * FROM {visits}")
    with setting(spark, "spark.paimon.scan.snapshot-idx", "1"):
        assert "scan.snapshot-id" in refusal(spark, f"SELECT * FROM {visits}")


def test_wrong_options_of_reads_are_refused_by_name(spark: SparkSession, visits: str) -> None:
    for name, text, words in (
        ("scan.mode", "bogus", "'bogus' is not a choice"),
        ("read.stream.maxRowsPerTrigger", "many", "'many' is not a whole number"),
        ("scan.bounded.watermark", "1", "availableNow=True"),
    ):
        with pytest.raises(AnalysisException) as refused:
            spark.readStream.option(name, text).table(visits)
        assert words in str(refused.value)
        assert "Traceback" not in str(refused.value)
    for unknown in ("foo", "scan.snapshot-idd"):
        said = refusal(spark, f"SELECT id FROM {visits} WITH (`{unknown}` = '1')")
        assert f"{unknown!r} is not an option of a read or a write" in said
        with pytest.raises(AnalysisException, match=f"'{unknown}' is not an option"):
            spark.createDataFrame([(5, 5)], "id INT, n INT").writeTo(visits).option(unknown, "1").append()
    assert rows(spark, f"SELECT id FROM {visits}") == [(1,), (2,)]
