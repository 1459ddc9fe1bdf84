"""Names in Spark's own catalog: a statement that would change only Spark's entry for the table is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.table.catalog.catalog import Catalog
from tests.integration.spark_catalog.statements import refusal, rows

pytestmark = pytest.mark.spark

NO_TABLE = [
    "CREATE TABLE spark_catalog.default.made (id INT) USING paimon",
    "CREATE TABLE IF NOT EXISTS spark_catalog.default.made (id INT) USING Penstock",
    "CREATE TABLE spark_catalog.default.made (id INT) USING penstock LOCATION '{path}'",
    "CREATE TABLE spark_catalog.default.made USING paimon AS SELECT 1 AS id",
    "CREATE OR REPLACE TABLE spark_catalog.default.made (id INT) USING paimon",
    "CREATE OR REPLACE TABLE spark_catalog.default.made USING paimon AS SELECT 1 AS id",
]
ONLY_THE_ENTRY = [
    "ALTER TABLE spark_catalog.default.named ADD COLUMN more INT",
    "ALTER TABLE spark_catalog.default.named DROP COLUMN id",
    "ALTER TABLE spark_catalog.default.named RENAME COLUMN id TO number",
    "ALTER TABLE spark_catalog.default.named ALTER COLUMN id COMMENT 'c'",
    "ALTER TABLE spark_catalog.default.named SET TBLPROPERTIES ('bucket' = '4')",
    "ALTER TABLE spark_catalog.default.named UNSET TBLPROPERTIES ('bucket')",
    "ALTER TABLE spark_catalog.default.named SET LOCATION '/nowhere'",
    "COMMENT ON TABLE spark_catalog.default.named IS 'c'",
]


@pytest.fixture
def named(spark: SparkSession, tmp_path: Path) -> str:
    catalog = Catalog(str(tmp_path / "elsewhere"), {"local.sync": "false"})
    catalog.create_database("shop")
    table = catalog.create_table("shop.named", [("id", "INT"), ("name", "STRING")])
    spark.sql("DROP TABLE IF EXISTS spark_catalog.default.named")
    spark.sql(f"CREATE TABLE spark_catalog.default.named USING penstock LOCATION '{table.path}'")
    return str(table.path)


def test_statements_that_create_no_table_are_refused(spark: SparkSession, named: str) -> None:
    for statement in NO_TABLE:
        text = refusal(spark, statement.format(path=named))
        assert "spark_catalog.default.made was not created" in text, statement
        assert "CREATE TABLE lake.db.t (...)" in text, statement
    assert not spark.catalog.tableExists("spark_catalog.default.made")
    with pytest.raises(PySparkException, match="was not created"):
        spark.range(1).write.format("paimon").saveAsTable("spark_catalog.default.made")


def test_statements_that_change_only_the_entry_are_refused(spark: SparkSession, named: str) -> None:
    for statement in ONLY_THE_ENTRY:
        text = refusal(spark, statement)
        assert "spark_catalog.default.named was not changed" in text, statement
        assert "ALTER TABLE lake.db.t" in text, statement
    spark.sql("INSERT INTO spark_catalog.default.named SELECT 1 AS a, 'x' AS b")
    assert rows(spark, "SELECT * FROM spark_catalog.default.named") == [(1, "x")]


def test_names_of_tables_that_exist_and_other_formats_are_not_refused(spark: SparkSession, named: str) -> None:
    spark.sql("ALTER TABLE spark_catalog.default.named RENAME TO default.renamed")
    assert rows(spark, "SELECT count(*) FROM spark_catalog.default.renamed") == [(0,)]
    spark.sql("DROP TABLE spark_catalog.default.renamed")
    spark.sql("DROP TABLE IF EXISTS spark_catalog.default.files")
    spark.sql("CREATE TABLE spark_catalog.default.files (id INT) USING parquet")
    spark.sql("ALTER TABLE spark_catalog.default.files SET TBLPROPERTIES ('k' = 'v')")
    spark.sql("ALTER TABLE spark_catalog.default.files ADD COLUMN more INT")
    assert spark.table("spark_catalog.default.files").columns == ["id", "more"]
    spark.sql("DROP TABLE spark_catalog.default.files")
