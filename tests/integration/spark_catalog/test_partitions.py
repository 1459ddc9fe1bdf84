"""Statements on partitions in Spark SQL: SHOW, DESCRIBE, DROP, TRUNCATE and INSERT OVERWRITE, for all types."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.table.catalog.catalog import Catalog
from tests.integration.spark_catalog.statements import refusal, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# A column of each type that can be one of a partition. Python and Java write many of the values in different ways.
VALUES = {
    # Spark compares a nullable BOOLEAN in another form, and refuses to overwrite by it.
    "BOOLEAN NOT NULL": "true",
    "TINYINT": "1",
    "BIGINT": "5",
    "STRING": "'a b'",
    "CHAR(3)": "'xy'",
    "VARCHAR(9)": "'z'",
    "BINARY": "X'6162'",
    "DATE": "DATE '2024-01-01'",
    "TIMESTAMP": "TIMESTAMP '2024-01-01 01:02:03.123'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '1960-01-01 01:02:03.5'",
    "FLOAT": "1.1F",
    "DOUBLE": "1e-7D",
    "DECIMAL(10, 2)": "1.50",
}


@pytest.fixture
def typed(spark: SparkSession) -> str:
    """A table with a partition, and PARTITION (...) that names it."""
    columns = ", ".join(f"p{place} {type_}" for place, type_ in enumerate(VALUES))
    names = ", ".join(f"p{place}" for place in range(len(VALUES)))
    spark.sql("DROP TABLE IF EXISTS typed")
    spark.sql(f"CREATE TABLE typed (id INT, {columns}) PARTITIONED BY ({names})")
    spark.sql(f"INSERT INTO typed VALUES (1, {', '.join(VALUES.values())})")
    return "PARTITION ({})".format(", ".join(f"p{place} = {text}" for place, text in enumerate(VALUES.values())))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_a_partition_with_a_value_of_each_type_is_overwritten(spark: SparkSession, typed: str, zone: str) -> None:
    shown = [row[0] for row in rows(spark, "SHOW PARTITIONS typed")]
    assert "p9=1960-01-01 01%3A02%3A03.5" in shown[0]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        spark.sql(f"INSERT OVERWRITE typed {typed} VALUES (7)")
        # In another time zone, the same text of a TIMESTAMP is another moment, and so another partition.
        assert [row[0] for row in rows(spark, "SELECT id FROM typed")] == ([7] if zone == "UTC" else [1, 7])
        spark.sql(f"INSERT OVERWRITE typed {typed} VALUES (8)")
        assert [row[0] for row in rows(spark, "SELECT id FROM typed")] == ([8] if zone == "UTC" else [1, 8])
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE typed", "ALTER TABLE typed DROP"])
def test_a_partition_with_a_value_of_each_type_is_dropped(spark: SparkSession, typed: str, statement: str) -> None:
    spark.sql(f"{statement} {typed}")
    assert rows(spark, "SELECT id FROM typed") == []
    assert rows(spark, "SHOW PARTITIONS typed") == []


def test_a_partition_is_described_with_its_statistics(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE counted (id INT, d DATE, n INT) PARTITIONED BY (d, n)")
    spark.sql("INSERT INTO counted SELECT /*+ COALESCE(1) */ id, DATE '2026-01-31', id % 2 FROM range(5)")
    described = rows(spark, "DESCRIBE TABLE EXTENDED counted PARTITION (d = '2026-01-31', n = 0)")
    counts = {name: text for name, text, _ in described}
    assert (counts["recordCount"], counts["fileCount"]) == ("3", "1")
    assert int(counts["fileSizeInBytes"]) > 0
    assert int(counts["lastFileCreationTime"]) > 0
    [shown] = rows(spark, "SHOW TABLE EXTENDED IN lake.shop LIKE 'counted' PARTITION (d = '2026-01-31', n = 1)")
    assert "recordCount: 2" in shown[3]


def test_partitions_are_shown_and_dropped(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE parted (id INT, d DATE, n INT) PARTITIONED BY (d, n)")
    spark.sql(
        "INSERT INTO parted SELECT id, IF(id < 4, DATE '2026-01-31', DATE '2026-02-01'), IF(id % 4 = 0, NULL, id % 4) "
        "FROM range(9)"
    )
    assert rows(spark, "SHOW PARTITIONS parted") == [
        ("d=2026-01-31/n=1",),
        ("d=2026-01-31/n=2",),
        ("d=2026-01-31/n=3",),
        ("d=2026-01-31/n=null",),
        ("d=2026-02-01/n=1",),
        ("d=2026-02-01/n=2",),
        ("d=2026-02-01/n=3",),
        ("d=2026-02-01/n=null",),
    ]
    assert len(rows(spark, "SHOW PARTITIONS parted PARTITION (n = 1)")) == 2
    spark.sql("ALTER TABLE parted DROP PARTITION (d = '2026-01-31', n = 2), PARTITION (d = '2026-02-01', n = null)")
    spark.sql("TRUNCATE TABLE parted PARTITION (d = '2026-02-01', n = 1)")
    assert sorted(rows(spark, "SELECT id FROM parted")) == [(0,), (1,), (3,), (6,), (7,)]
    # Each statement is one commit, so no reader sees half of it.
    assert len(catalog.table("shop.parted").snapshots) == 3


def test_all_partitions_with_some_values_are_truncated_at_once(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE truncated (id INT, d STRING, n INT) PARTITIONED BY (d, n)")
    spark.sql("INSERT INTO truncated VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, 'b', 2), (5, 'c', 1)")
    # Spark itself refuses a part of the columns in DROP PARTITION, without asking the catalog.
    assert "must match the partition spec (d, n)" in refusal(spark, "ALTER TABLE truncated DROP PARTITION (d = 'a')")
    spark.sql("TRUNCATE TABLE truncated PARTITION (d = 'a')")
    assert rows(spark, "SELECT id FROM truncated") == [(3,), (4,), (5,)]
    spark.sql("TRUNCATE TABLE truncated PARTITION (n = 1)")
    spark.sql("TRUNCATE TABLE truncated PARTITION (d = 'absent')")
    assert rows(spark, "SELECT id FROM truncated") == [(4,)]
    assert len(catalog.table("shop.truncated").snapshots) == 3


def test_partitions_of_a_fallback_branch_are_listed_and_dropped_in_the_branch(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE layered (id INT, dt STRING) PARTITIONED BY (dt)")
    spark.sql("INSERT INTO layered VALUES (1, 'a')")
    spark.sql("CALL lake.sys.create_branch('shop.layered', 'b')")
    spark.sql("INSERT INTO `layered$branch_b` VALUES (2, 'b'), (3, 'b'), (4, 'a')")
    spark.sql("ALTER TABLE layered SET TBLPROPERTIES ('scan.fallback-branch' = 'b')")
    assert [row[0] for row in rows(spark, "SHOW PARTITIONS layered")] == ["dt=a", "dt=b"]
    described = rows(spark, "DESCRIBE TABLE EXTENDED layered PARTITION (dt = 'b')")
    assert {name: text for name, text, _ in described}["recordCount"] == "2"
    assert "read from the branch b" in refusal(spark, "ALTER TABLE layered DROP PARTITION (dt = 'b')")
    assert [row[0] for row in rows(spark, "SELECT id FROM layered")] == [1, 2, 3]
    spark.sql("ALTER TABLE `layered$branch_b` DROP PARTITION (dt = 'b')")
    assert [row[0] for row in rows(spark, "SELECT id FROM layered")] == [1]


FAR = {
    "DATE": ["1500-02-03", "1500-02-13", "0000-06-01", "+10000-01-01"],
    "TIMESTAMP": ["1500-02-03 01:02:03.5", "1500-02-13 01:02:03.5", "0000-12-31 23:00:00", "+12000-01-01 00:00:00"],
}


@pytest.mark.parametrize("kind", FAR)
def test_days_and_moments_that_python_has_no_dates_for(spark: SparkSession, kind: str) -> None:
    values = [f"{kind} '{text}'" for text in FAR[kind]]
    spark.sql("DROP TABLE IF EXISTS far")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    try:
        spark.sql(f"CREATE TABLE far (id INT, v {kind}, p {kind}) PARTITIONED BY (p)")
        spark.sql("INSERT INTO far VALUES " + ", ".join(f"({n}, {text}, {text})" for n, text in enumerate(values)))
        assert len(rows(spark, "SHOW PARTITIONS far")) == len(values)
        for n, text in enumerate(values):
            assert rows(spark, f"SELECT id FROM far WHERE v = {text} AND p IN ({text}, NULL)") == [(n,)]
        spark.sql(f"INSERT OVERWRITE far PARTITION (p = {values[0]}) VALUES (10, {values[0]})")
        spark.sql(f"INSERT OVERWRITE far PARTITION (p = {values[3]}) VALUES (13, {values[3]})")
        assert sorted(rows(spark, "SELECT id FROM far")) == [(1,), (2,), (10,), (13,)]
        spark.sql(f"DELETE FROM far WHERE v = {values[2]}")
        spark.sql(f"ALTER TABLE far DROP PARTITION (p = {values[3]})")
        assert sorted(rows(spark, "SELECT id FROM far")) == [(1,), (10,)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
