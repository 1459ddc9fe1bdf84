"""CREATE, ALTER, DROP, SHOW and DESCRIBE by names in Spark SQL, on one session."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import penstock
from penstock.table.catalog.catalog import Catalog
from penstock.table.schema.type_text import written
from tests.integration.spark_catalog.statements import ORDERS, fresh, refusal, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_created_table_has_what_the_statement_says(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "made")
    table = catalog.table("shop.made")
    assert (table.primary_keys, table.partition_keys, table.comment) == (["id", "dt"], ["dt"], "all of them")
    assert table.options == {"bucket": "2", "changelog-producer": "input"}
    status = table.definition.fields[1]
    assert (status.description, status.default) == ("how far", "new")
    described = rows(spark, "DESCRIBE made")
    assert ("status", "string", "how far") in described
    [[created]] = rows(spark, "SHOW CREATE TABLE made")
    spark.sql(created.replace("shop.made", "shop.made_again"))
    assert catalog.table("shop.made_again").definition.fields == table.definition.fields
    assert ("shop", "made_again", False) in rows(spark, "SHOW TABLES")
    assert ("bucket", "2") in rows(spark, "SHOW TBLPROPERTIES made")


def test_a_table_is_described_with_its_key_and_its_location(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "keyed")
    spark.sql("CREATE TABLE without_key (id INT)")
    shown = dict(rows(spark, "SHOW TBLPROPERTIES keyed"))
    assert shown == {"primary-key": "id,dt", "bucket": "2", "changelog-producer": "input"}
    assert rows(spark, "SHOW TBLPROPERTIES keyed ('primary-key')") == [("primary-key", "id,dt")]
    assert rows(spark, "SHOW TBLPROPERTIES without_key") == []
    described = {name: text for name, text, _ in rows(spark, "DESCRIBE TABLE EXTENDED keyed")}
    assert described["Location"] == catalog.table("shop.keyed").path
    assert described["Type"] == "MANAGED"
    assert "primary-key=id,dt" in described["Table Properties"]
    assert "# Partition Information" in described
    # The printed statement names no location, which would be that of this table.
    [[created]] = rows(spark, "SHOW CREATE TABLE keyed")
    assert "'primary-key' = 'id,dt'" in created
    assert "LOCATION" not in created


def test_the_log_names_a_database_that_exists_in_few_lines(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    named = SparkContext._gateway.new_array(jvm.java.lang.String, 1)
    named[0] = "shop"
    lake = spark._jsparkSession.sessionState().catalogManager().catalog("lake")
    with pytest.raises(AnalysisException, match="exists already") as failed:
        lake.createNamespace(named, jvm.java.util.HashMap())
    # Spark logs the error of CREATE DATABASE IF NOT EXISTS with all its lines.
    assert len(failed.value._origin.getStackTrace()) == 0


def test_the_key_may_be_a_property(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE by_property (k INT, v VARCHAR(9)) USING paimon TBLPROPERTIES ('primary-key' = 'k')")
    assert catalog.table("shop.by_property").primary_keys == ["k"]
    assert written(catalog.table("shop.by_property").definition.fields[1].type) == "VARCHAR(9)"
    said = refusal(spark, "CREATE TABLE x (k INT, v INT, PRIMARY KEY (k)) TBLPROPERTIES ('primary-key' = 'v')")
    assert "differ" in said


def test_all_types_come_back(spark: SparkSession) -> None:
    columns = (
        "a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(20, 3), h BOOLEAN, i DATE, j TIMESTAMP, "
        "k TIMESTAMP_NTZ, l STRING, m BINARY, n ARRAY<INT>, o MAP<STRING, INT>, p STRUCT<x: INT, y: ARRAY<STRING>>"
    )
    spark.sql(f"CREATE TABLE types ({columns})")
    spark.sql(
        "INSERT INTO types SELECT 1Y, 2S, 3, 4L, 1.5F, 2.5D, 1.125, true, DATE '2026-01-31', "
        "TIMESTAMP '2026-01-31 1:2:3', TIMESTAMP_NTZ '2026-01-31 1:2:3', 'text', X'0102', array(1, null), "
        "map('k', 1), struct(1, array('z'))"
    )
    types = [row[1] for row in spark.sql("DESCRIBE types").collect()]
    assert types[:3] == ["tinyint", "smallint", "int"]
    assert types[9:11] == ["timestamp", "timestamp_ntz"]
    assert types[13:] == ["array<int>", "map<string,int>", "struct<x:int,y:array<string>>"]
    [row] = spark.table("types").collect()
    assert (row.a, row.d, row.f, str(row.i), row.m, row.n, row.o) == (
        1,
        4,
        2.5,
        "2026-01-31",
        b"\x01\x02",
        [1, None],
        {"k": 1},
    )
    assert (row.p.x, row.p.y, str(row.k)) == (1, ["z"], "2026-01-31 01:02:03")


def test_create_table_as_and_like(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "origin", "(1, 'a', 1, 'x')", "(2, 'b', 2, 'y')")
    spark.sql("CREATE TABLE copied TBLPROPERTIES ('bucket' = '-1') AS SELECT id, status FROM origin")
    assert rows(spark, "SELECT * FROM copied") == [(1, "a"), (2, "b")]
    spark.sql("INSERT INTO copied VALUES (3, null)")
    assert rows(spark, "SELECT status FROM copied WHERE id = 3") == [(None,)]  # and not the default of the other table
    spark.sql("CREATE TABLE IF NOT EXISTS copied AS SELECT 1 other")
    assert rows(spark, "SELECT count(*) FROM copied") == [(3,)]
    spark.sql("CREATE TABLE alike LIKE origin")
    assert catalog.table("shop.alike").primary_keys == ["id", "dt"]
    assert catalog.table("shop.alike").options == catalog.table("shop.origin").options


def test_a_failed_create_table_as_leaves_no_table(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "origin", "(1, 'a', 1, 'x')")
    refuse = "CREATE TABLE failed AS SELECT id, assert_true(id > 5) IS NULL good FROM origin"
    with pytest.raises(Exception, match="is not true"):
        spark.sql(refuse)
    assert not catalog.table_exists("shop.failed")


def test_a_query_may_read_the_table_that_it_replaces(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "kept", "(1, 'a', 1, 'x')")
    spark.sql("CREATE OR REPLACE TABLE kept TBLPROPERTIES ('primary-key' = 'k') AS SELECT id + 1 AS k FROM kept")
    assert rows(spark, "SELECT * FROM kept") == [(2,)]
    table = catalog.table("shop.kept")
    assert (table.primary_keys, [snapshot.id for snapshot in table.snapshots]) == (["k"], [1])
    spark.sql("REPLACE TABLE kept AS SELECT k + 1 AS k FROM kept")
    assert rows(spark, "SELECT * FROM kept") == [(3,)]
    spark.sql("CREATE OR REPLACE TABLE kept (v STRING)")
    assert spark.table("kept").columns == ["v"]
    spark.range(2).writeTo("lake.shop.kept").createOrReplace()
    spark.range(3).writeTo("lake.shop.kept").replace()
    assert rows(spark, "SELECT * FROM kept") == [(0,), (1,), (2,)]
    assert [name for name in catalog.tables("shop") if name.startswith("kept")] == ["kept"]


def test_a_table_whose_replacement_fails_is_as_it_was(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "kept", "(1, 'a', 1, 'x')")
    with pytest.raises(Exception, match="is not true"):
        spark.sql("CREATE OR REPLACE TABLE kept AS SELECT id, assert_true(id > 5) IS NULL good FROM kept")
    assert rows(spark, "SELECT id, status FROM kept") == [(1, "a")]
    assert [name for name in catalog.tables("shop") if name.startswith("kept")] == ["kept"]


def test_rows_that_others_write_to_a_table_that_is_replaced_are_kept(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE contested (id INT)")
    spark.sql("INSERT INTO contested VALUES (1)")
    place = catalog.table("shop.contested").path

    def write() -> None:
        with penstock.open_table(place).writer() as writer:
            writer.write(pa.table({"id": pa.array([7], pa.int32())}))
            writer.commit()

    spark.udf.register("meanwhile", lambda number: write() or number, "int")
    said = refusal(spark, "CREATE OR REPLACE TABLE contested AS SELECT meanwhile(id) AS id FROM contested")
    assert "another job has changed the table while it was replaced" in said
    assert sorted(rows(spark, "SELECT id FROM contested")) == [(1,), (7,)]
    assert [name for name in catalog.tables("shop") if name.startswith("contested")] == ["contested"]


def test_a_table_has_its_name_when_its_rows_are_there(spark: SparkSession, catalog: Catalog) -> None:
    """So a driver that dies leaves no table under the name, which IF NOT EXISTS would take for the whole one."""
    spark.sql("CREATE TABLE neighbour (id INT)")
    folder = Path(catalog.table("shop.neighbour").path).parent
    spark.udf.register("is_there", lambda _number: (folder / "staged").exists(), "boolean")
    spark.sql("CREATE TABLE IF NOT EXISTS staged AS SELECT id, is_there(id) AS seen FROM range(3)")
    assert sorted(rows(spark, "SELECT * FROM staged")) == [(0, False), (1, False), (2, False)]
    assert [name for name in catalog.tables("shop") if name.startswith("staged")] == ["staged"]


@pytest.mark.parametrize("statement", ["REPLACE TABLE absent (a INT)", "REPLACE TABLE absent AS SELECT 1 a"])
def test_only_a_table_that_exists_is_replaced(spark: SparkSession, catalog: Catalog, statement: str) -> None:
    assert "cannot be found" in refusal(spark, statement)
    assert not catalog.table_exists("shop.absent")


def test_every_alter_is_done(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "altered", "(1, 'a', 1, 'x')")
    for change in (
        "ADD COLUMN coupon STRING AFTER status",
        "ALTER COLUMN coupon SET DEFAULT 'none'",
        "ADD COLUMNS (e INT COMMENT 'e', f BIGINT FIRST)",
        "RENAME COLUMN coupon TO voucher",
        "ALTER COLUMN e TYPE BIGINT",
        "ALTER COLUMN e COMMENT 'more'",
        "ALTER COLUMN e SET DEFAULT 3",
        "ALTER COLUMN f AFTER id",
        "DROP COLUMN f",
        "ADD COLUMN nested STRUCT<p: INT>",
        "ADD COLUMN nested.q STRING",
        "SET TBLPROPERTIES ('snapshot.num-retained.max' = '100', 'comment' = 'other')",
    ):
        spark.sql(f"ALTER TABLE altered {change}")
    table = catalog.table("shop.altered")
    assert table.schema.names == ["id", "status", "voucher", "amount", "dt", "e", "nested"]
    columns = {field.name: field for field in table.definition.fields}
    assert (columns["voucher"].default, columns["e"].default, columns["e"].description) == ("none", "3", "more")
    assert (table.options["snapshot.num-retained.max"], table.comment) == ("100", "other")
    assert "'buckt' is not a table option" in refusal(spark, "ALTER TABLE altered UNSET TBLPROPERTIES ('buckt')")
    spark.sql("ALTER TABLE altered UNSET TBLPROPERTIES IF EXISTS ('buckt', 'snapshot.num-retained.max')")
    spark.sql("ALTER TABLE altered ALTER COLUMN e DROP DEFAULT")
    spark.sql("ALTER TABLE lake.shop.altered RENAME TO lake.shop.renamed_once")
    spark.sql("ALTER TABLE renamed_once RENAME TO renamed")
    spark.sql("INSERT INTO renamed (id, dt) VALUES (2, 'y')")
    assert rows(spark, "SELECT id, voucher, e, nested FROM renamed") == [(1, None, None, None), (2, "none", None, None)]
    assert "snapshot.num-retained.max" not in catalog.table("shop.renamed").options


def test_drop_and_truncate(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "gone", "(1, 'a', 1, 'x')")
    spark.sql("TRUNCATE TABLE gone")
    assert rows(spark, "SELECT count(*) FROM gone") == [(0,)]
    spark.sql("DROP TABLE gone")
    assert not catalog.table_exists("shop.gone")
    fresh(spark, "purged", "(1, 'a', 1, 'x')")
    spark.sql("DROP TABLE purged PURGE")
    assert not catalog.table_exists("shop.purged")
    spark.sql("CREATE DATABASE lake.empty")
    spark.sql("DROP DATABASE lake.empty")
    assert ("empty",) not in rows(spark, "SHOW DATABASES IN lake")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("CREATE TABLE bad (a INTERVAL DAY)", "no type interval day"),
        ("CREATE TABLE bad (a INT) USING parquet", "not USING parquet"),
        ("CREATE TABLE bad (a INT) STORED AS PARQUET", "'file.format' = 'parquet'"),
        ("CREATE TABLE bad (a INT) ROW FORMAT DELIMITED", "ROW FORMAT are for tables of Hive"),
        ("CREATE TABLE bad (a INT) DEFAULT COLLATION UTF8_LCASE", "no collation UTF8_LCASE"),
        ("CREATE TABLE bad LIKE refused STORED AS ORC", "STORED AS and ROW FORMAT are for tables of Hive"),
        ("CREATE TABLE bad LIKE refused USING parquet", "not USING parquet"),
        ("CREATE TABLE bad (a INT) ROW FORMAT DELIMITED FIELDS TERMINATED BY ','", "'file.format' = 'parquet'"),
        ("CREATE TABLE bad (a INT) PARTITIONED BY (bucket(4, a))", "not partitioned by bucket(4, a)"),
        ("CREATE TABLE bad (a INT) LOCATION '/tmp/elsewhere'", "remove LOCATION"),
        ("CREATE EXTERNAL TABLE bad (a INT)", "remove EXTERNAL"),
        ("CREATE TABLE bad (a INT, CHECK (a > 1))", "only PRIMARY KEY"),
        ("CREATE TABLE bad (a INT) TBLPROPERTIES ('bukcet' = '1')", "did you mean bucket?"),
        ("CREATE TABLE bad (a INT DEFAULT (1 + 1))", "is not a literal"),
        ("CREATE DATABASE lake.bad COMMENT 'x'", "has no properties"),
        ("CREATE DATABASE lake.shop", "exists already"),
        ("ALTER DATABASE lake.shop SET DBPROPERTIES ('a' = 'b')", "keeps no properties of databases"),
        ("DROP DATABASE lake.shop", "is not empty"),
        ("ALTER TABLE refused SET LOCATION '/x'", "location of a table cannot be changed"),
        ("ALTER TABLE refused CLUSTER BY (id)", "is not supported"),
        ("ALTER TABLE refused ADD CONSTRAINT c CHECK (id > 0)", "is not supported"),
        ("ALTER TABLE refused DROP COLUMN id", "primary key column cannot be dropped"),
        ("ALTER TABLE refused ADD COLUMN late INT DEFAULT 5", "then ALTER COLUMN ... SET DEFAULT"),
        ("ALTER TABLE refused ADD PARTITION (dt = 'z')", "created by the first row"),
        ("ALTER TABLE refused SET TBLPROPERTIES ('bukcet' = '1')", "did you mean bucket?"),
        ("DROP TABLE `refused$snapshots`", "is a part of a table"),
        (
            "ALTER TABLE lake.shop.refused RENAME TO spark_catalog.default.bad",
            "there is no database 'spark_catalog'",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_way_out(spark: SparkSession, statement: str, told: str) -> None:
    if "refused" in statement:
        spark.sql(ORDERS.format("refused").replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    assert told in refusal(spark, statement)
