"""Tables that the rows of a frame create: the options of the frame are the table's, as in Paimon."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.table.catalog.catalog import Catalog
from tests.integration.spark_catalog.statements import refusal, rows
from tests.invariants import check_invariants

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "a", "mon"), (2, "b", "tue")], "id INT, v STRING, dt STRING")


def shape(catalog: Catalog, name: str) -> tuple[list[str], str]:
    table = catalog.table(f"shop.{name}")
    return table.primary_keys, table.options["bucket"]


def test_the_first_frame_creates_the_table_with_its_options(
    spark: SparkSession, catalog: Catalog, frame: DataFrame
) -> None:
    writer = frame.write.format("paimon").partitionBy("dt").option("primary-key", "id,dt")
    writer.option("bucket", "2").option("file.format", "orc").option("commit-user", "frames").saveAsTable("saved")
    table = catalog.table("shop.saved")
    assert (table.primary_keys, table.partition_keys) == (["id", "dt"], ["dt"])
    assert dict(table.options) == {"bucket": "2", "file.format": "orc"}
    assert table.latest_snapshot is not None
    assert table.latest_snapshot.commit_user == "frames"
    frame.write.format("paimon").mode("append").option("primary-key", "id,dt").saveAsTable("saved")
    spark.sql("UPDATE saved SET v = 'z' WHERE id = 1")
    assert rows(spark, "SELECT id, v FROM saved") == [(1, "z"), (2, "b")]
    assert {path.rpartition(".")[2] for (path,) in rows(spark, "SELECT file_path FROM `saved$files`")} == {"orc"}
    check_invariants(table.refresh())


@pytest.mark.parametrize(("name", "mode"), [("replaced", "overwrite"), ("appended", "append"), ("unless", "ignore")])
def test_other_modes_create_tables_too(
    spark: SparkSession, catalog: Catalog, frame: DataFrame, name: str, mode: str
) -> None:
    if mode == "overwrite":
        spark.sql(f"CREATE TABLE {name} (other INT)")
    frame.write.format("penstock").mode(mode).options(**{"primary-key": "id", "bucket": "3"}).saveAsTable(name)
    assert shape(catalog, name) == (["id"], "3")
    assert rows(spark, f"SELECT id FROM {name}") == [(1,), (2,)]


def test_a_writer_of_version_2_creates_and_replaces(spark: SparkSession, catalog: Catalog, frame: DataFrame) -> None:
    frame.writeTo("second").using("paimon").tableProperty("primary-key", "id").option("bucket", "3").create()
    assert shape(catalog, "second") == (["id"], "3")
    frame.writeTo("second").option("primary-key", "v").createOrReplace()
    assert catalog.table("shop.second").primary_keys == ["v"]
    assert rows(spark, "SELECT id FROM second") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("bukcet", "2", "did you mean bucket?"),
        ("compression", "zstd", "is not a table option"),
        ("primary-key", "nowhere", "columns are id, v, dt"),
    ],
)
def test_options_that_a_table_cannot_have_leave_none(
    catalog: Catalog, frame: DataFrame, option: str, value: str, told: str
) -> None:
    before = catalog.tables("shop")
    with pytest.raises(PySparkException, match="not") as caught:
        frame.write.format("paimon").option(option, value).saveAsTable("refused_frame")
    assert told in str(caught.value)
    assert catalog.tables("shop") == before


def test_what_belongs_to_the_table_is_refused_for_one_write(spark: SparkSession, frame: DataFrame) -> None:
    spark.sql("CREATE TABLE fixed (id INT, v STRING, dt STRING, PRIMARY KEY (id))")
    with pytest.raises(PySparkException, match="create the table with it before the write") as caught:
        frame.write.format("paimon").mode("append").option("primary-key", "v").saveAsTable("fixed")
    assert "table has: id" in str(caught.value)


def test_a_path_is_no_name(spark: SparkSession, warehouse: object) -> None:
    told = refusal(spark, f"SELECT * FROM paimon.`{warehouse}/shop.db/saved`")
    assert f'spark.read.format("paimon").load("{warehouse}/shop.db/saved")' in told


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_path_without_a_table_is_refused_with_how_to_create_one(
    frame: DataFrame, mode: str, tmp_path: object
) -> None:
    with pytest.raises(PySparkException, match="there is no table") as caught:
        frame.write.format("paimon").mode(mode).save(f"{tmp_path}/none")
    assert "penstock.create_table(path, schema" in str(caught.value)
