"""The statement that `penstock merge-into` runs on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.commands.spark_merge import SparkMerge
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.sql.dml.merge_query import Clause

COLUMNS = ["id", "v", "n"]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = Catalog(str(tmp_path))
    catalog.create_database("shop")
    columns = [("id", "INT"), ("v", "STRING"), ("n", "INT")]
    return catalog.create_table("shop.orders", columns, ["id"], options={"bucket": "1"})


def merge(table: Table, *clauses: Clause, source: str = "shop.news", alias: str | None = None) -> SparkMerge:
    return SparkMerge(table, "`shop`.`orders`", alias, source, "orders.id = news.id", clauses)


def test_clauses_are_written_in_the_order_that_spark_wants(table: Table) -> None:
    clauses = (
        Clause("not-matched-by-source-delete", None, "orders.n < 3"),
        Clause("not-matched-insert", "news.id, concat('a, b', news.v), 0"),
        Clause("matched-upsert", "v = coalesce(news.v, 'x'), orders.n = 1"),
    )
    assert merge(table, *clauses, alias="orders").statement(COLUMNS) == "\n".join(
        [
            "MERGE INTO `shop`.`orders` AS `orders`",
            "USING shop.news",
            "ON orders.id = news.id",
            "WHEN MATCHED THEN UPDATE SET `v` = coalesce(news.v, 'x'), `n` = 1",
            "WHEN NOT MATCHED THEN INSERT (`id`, `v`, `n`) VALUES (news.id,  concat('a, b', news.v),  0)",
            "WHEN NOT MATCHED BY SOURCE AND (orders.n < 3) THEN DELETE",
        ]
    )


def test_a_row_to_which_two_clauses_apply_is_refused(table: Table) -> None:
    clauses = (Clause("matched-delete", None, "news.n = 0"), Clause("matched-upsert", "*", "news.n < 1"))
    lines = merge(table, *clauses).statement(["k", "w", "m"]).splitlines()
    assert lines[3:] == [
        "WHEN MATCHED AND (news.n = 0) AND (news.n < 1) THEN UPDATE SET `v` = "
        "raise_error('several actions would change one row')",
        "WHEN MATCHED AND (news.n = 0) THEN DELETE",
        "WHEN MATCHED AND (news.n < 1) THEN UPDATE SET `id` = `news`.`k`, `v` = `news`.`w`, `n` = `news`.`m`",
    ]


@pytest.mark.parametrize(
    ("clause", "source", "refusal"),
    [
        (Clause("matched-upsert", "id = 3"), "shop.news", "'id' is part of the key"),
        (Clause("matched-upsert", "w = 3"), "shop.news", "sets no column"),
        (Clause("not-matched-insert", "1, 2"), "shop.news", "2 values are inserted into 3 columns"),
        (Clause("matched-upsert", "*"), "(SELECT 1)", "source with a name"),
        (Clause("not-matched-by-source-upsert", "*"), "shop.news", "needs a source row"),
    ],
)
def test_clauses_that_no_merge_can_have_are_refused(table: Table, clause: Clause, source: str, refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal):
        merge(table, clause, source=source).statement(COLUMNS)
