"""INSERT and MERGE WITH SCHEMA EVOLUTION: columns of the source that a table lacks are added to it."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from penstock.table.catalog.catalog import Catalog
from tests.integration.spark_catalog.statements import refusal, rows
from tests.invariants import check_invariants

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEYS = {"keyed": "PRIMARY KEY (id)", "keyless": None}
ON = "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def created(spark: SparkSession, name: str, key: str | None) -> None:
    columns = ", ".join(["id INT NOT NULL", "status STRING", *([key] if key else [])])
    spark.sql(f"CREATE TABLE {name} ({columns})")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_a_merge_adds_the_columns_of_its_source(spark: SparkSession, catalog: Catalog, kind: str) -> None:
    name = f"evolved_{kind}"
    created(spark, name, KEYS[kind])
    source = "SELECT * FROM VALUES (2, 'c', 20, named_struct('x', 1)), (3, 'd', 30, NULL) AS v(id, status, extra, deep)"
    spark.sql(f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING ({source}) s {ON}")
    assert rows(spark, f"SELECT id, status, extra, deep.x FROM {name}") == [
        (1, "a", None, None),
        (2, "c", 20, 1),
        (3, "d", 30, None),
    ]
    # A wider type and a field of a structure.
    wider = "SELECT 3 AS id, 'e' AS status, 5000000000 AS extra, named_struct('x', 2, 'y', 'z') AS deep"
    spark.sql(f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING ({wider}) s {ON}")
    assert rows(spark, f"SELECT extra, deep.x, deep.y FROM {name} WHERE id > 1") == [(20, 1, None), (5 * 10**9, 2, "z")]
    check_invariants(catalog.table(f"shop.{name}"))


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_an_insert_adds_the_columns_of_its_query(spark: SparkSession, kind: str) -> None:
    name = f"widened_{kind}"
    created(spark, name, KEYS[kind])
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {name} BY NAME SELECT 3 AS id, 'new' AS extra")
    assert rows(spark, f"SELECT * FROM {name}") == [(1, "a", None), (2, "b", None), (3, None, "new")]


def test_frames_add_columns(spark: SparkSession) -> None:
    created(spark, "framed_wider", KEYS["keyed"])
    merge = spark.sql("SELECT 1 AS id, 'z' AS status, 9 AS extra").mergeInto(
        "framed_wider", expr("framed_wider.id = 1")
    )
    merge.whenMatched().updateAll().withSchemaEvolution().merge()
    assert rows(spark, "SELECT * FROM framed_wider") == [(1, "z", 9), (2, "b", None)]


def test_other_statements_add_none(spark: SparkSession) -> None:
    created(spark, "as_it_is", KEYS["keyed"])
    assert "extra" in refusal(spark, "INSERT INTO as_it_is BY NAME SELECT 3 AS id, 'new' AS extra")
    spark.sql(f"MERGE INTO as_it_is t USING (SELECT 1 AS id, 'q' AS status, 5 AS extra) s {ON}")
    assert rows(spark, "SELECT * FROM as_it_is") == [(1, "q"), (2, "b")]


@pytest.mark.parametrize("option", ["write.merge-schema", "mergeSchema", "write.merge-schema.explicit-cast"])
def test_frames_do_not_add_columns_by_an_option(spark: SparkSession, option: str) -> None:
    spark.sql("DROP TABLE IF EXISTS framed")
    created(spark, "framed", None)
    frame = spark.createDataFrame([(3, "c", 30)], "id INT, status STRING, extra INT")
    writer, newer = frame.write.option(option, "true"), frame.writeTo("framed").option(option, "true")
    for write in (
        lambda: writer.mode("append").saveAsTable("framed"),
        lambda: writer.insertInto("framed"),
        newer.append,
        newer.overwritePartitions,
    ):
        with pytest.raises(PySparkException, match=f"(?i){option} is not supported") as refused:
            write()
        assert "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME" in str(refused.value)
    assert rows(spark, "SELECT * FROM framed") == [(1, "a"), (2, "b")]
