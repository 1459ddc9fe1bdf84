"""Tables that Spark has cached: each statement of the session shows what the ones before it have changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.table.catalog.catalog import Catalog
from tests.integration.spark_catalog.statements import rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CALLS = {
    "rollback": ("CALL lake.sys.rollback_to('cached', '1')", [(1,)]),
    "named": ("CALL lake.sys.rollback(table => 'lake.shop.cached', version => '1')", [(1,)]),
    "partition": ("CALL lake.sys.drop_partition('shop.cached', 'dt=mon')", [(2,)]),
    "branch": ("CALL lake.sys.fast_forward('shop.cached', 'side')", [(1,)]),
    "merge": (
        "CALL lake.sys.merge_into(target_table => 'cached', source_table => 'shop.more',"
        " merge_condition => 'cached.id = more.id', not_matched_insert_values => '*')",
        [(1,), (2,), (3,)],
    ),
}


@pytest.fixture
def cached(spark: SparkSession) -> Iterator[None]:
    for name in ("cached", "more"):
        spark.sql(f"CREATE TABLE {name} (id INT, dt STRING, PRIMARY KEY (id, dt)) PARTITIONED BY (dt)")
    spark.sql("INSERT INTO cached VALUES (1, 'mon')")
    spark.sql("CALL lake.sys.create_tag('cached', 'one')")
    spark.sql("CALL lake.sys.create_branch('cached', 'side', 'one')")
    spark.sql("INSERT INTO cached VALUES (2, 'tue')")
    spark.sql("INSERT INTO more VALUES (3, 'mon')")
    spark.sql("CACHE TABLE cached")
    yield
    spark.sql("UNCACHE TABLE IF EXISTS cached")
    for name in ("cached", "more"):
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("call", sorted(CALLS))
def test_a_cached_table_shows_what_a_call_changed(spark: SparkSession, call: str) -> None:
    statement, expected = CALLS[call]
    assert rows(spark, "SELECT id FROM cached") == [(1,), (2,)]
    spark.sql(statement).collect()
    assert rows(spark, "SELECT id FROM cached") == expected


@pytest.mark.usefixtures("cached")
def test_older_states_of_a_cached_table_are_read(spark: SparkSession, catalog: Catalog) -> None:
    assert rows(spark, "SELECT id FROM cached VERSION AS OF 1") == [(1,)]
    assert rows(spark, "SELECT id FROM cached WITH (`scan.tag-name` = 'one')") == [(1,)]
    spark.sql("INSERT INTO cached VALUES (4, 'wed')")
    assert rows(spark, "SELECT id FROM cached") == [(1,), (2,), (4,)]
    spark.sql("TRUNCATE TABLE cached PARTITION (dt = 'mon')")
    assert rows(spark, "SELECT id FROM cached") == [(2,), (4,)]
    assert len(catalog.table("shop.cached").scan().to_arrow()) == 2
