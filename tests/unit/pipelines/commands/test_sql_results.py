"""The command sql: results as text and JSON, listings of tables, and time travel."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.pipelines.commands.command_shop import Shop


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shop:
    return Shop(tmp_path, capsys)


def test_sql_results_are_text_or_json(shop: Shop) -> None:
    where = ["--warehouse", shop.warehouse]
    query = "select v, price from shop.orders for version as of 2 where id > 1 order by v"
    assert json.loads(shop.words("sql", query, *where, "--json")) == {
        "columns": ["v", "price"],
        "rows": [["a2", None], ["b2", None]],
    }
    output = shop.words("sql", "select id, v from orders order by v", *where, "--database", "shop", "--limit", "2")
    assert output.splitlines() == ["id  v", "--  --", " 1  a1", " 2  a2", "... 4 more rows; show all with --limit 0"]
    output = shop.words("sql", 'select snapshot_id from shop."orders$snapshots"', *where)
    assert output.split() == ["snapshot_id", "-----------", "1", "2", "3"]
    assert "cannot be parsed" in shop.words("sql", "select", *where, expect=2)


def sql(shop: Shop, query: str) -> list[list[object]]:
    found = json.loads(shop.words("sql", query, "--warehouse", shop.warehouse, "--json", "--database", "shop"))
    return list(found["rows"])


@pytest.mark.slow
def test_sql_shows_and_describes_tables(shop: Shop) -> None:
    assert sql(shop, "SHOW TABLES") == sql(shop, "show tables in shop;") == [["shop", "orders"]]
    assert sql(shop, "SHOW DATABASES") == [["shop"]]
    for query in ("DESCRIBE shop.orders", "desc orders", "DESCRIBE TABLE `shop`.`orders`"):
        assert [row[0] for row in sql(shop, query)] == shop.orders.schema.names
    assert sql(shop, "DESCRIBE orders")[0][1:4] == ["STRING", False, "PRI, PAR"]
    assert sql(shop, "DESCRIBE shop.orders$snapshots")[0][0] == "snapshot_id"
    assert [row[0] for row in sql(shop, "DESCRIBE SELECT 1 AS one")] == ["one"]
    ((statement,),) = sql(shop, "SHOW CREATE TABLE shop.orders")
    assert str(statement).startswith("CREATE TABLE `shop`.`orders` (\n  `dt` STRING NOT NULL,\n  `id` INT NOT NULL")
    assert "PRIMARY KEY (`dt`, `id`) NOT ENFORCED\n) COMMENT 'what was ordered'" in str(statement)
    assert "PARTITIONED BY (`dt`) WITH (\n  'bucket' = '1'" in str(statement)
    # It can be read, and copied into another script: the line breaks were shown as escapes in one long line.
    assert shop.words("sql", "SHOW CREATE TABLE shop.orders", "--warehouse", shop.warehouse).startswith(
        "CREATE TABLE `shop`.`orders` (\n  `dt` STRING NOT NULL,\n"
    )
    assert "\\n" not in shop.words("sql", "EXPLAIN SELECT id FROM shop.orders", "--warehouse", shop.warehouse)
    assert "SHOW needs an object" in shop.words("sql", "show create tag x", "--warehouse", shop.warehouse, expect=2)


def test_sql_accepts_time_travel_of_flink_and_spark(shop: Shop) -> None:
    second = shop.orders.snapshots[1]
    at = datetime.fromtimestamp(second.time_millis / 1000 + 0.001, tz=UTC).astimezone().replace(tzinfo=None)
    expected = [[second.total_record_count]]
    for written in ("FOR SYSTEM_TIME AS OF TIMESTAMP", "FOR SYSTEM_TIME AS OF", "TIMESTAMP AS OF TIMESTAMP"):
        query = f"SELECT count(*) FROM orders {written} '{at.isoformat(sep=' ', timespec='milliseconds')}' AS o"
        assert sql(shop, query) == expected, written


@pytest.mark.slow
def test_sql_reads_a_tag_by_its_name(shop: Shop) -> None:
    shop.orders.create_tag("it's monday", 2)
    count = "select count(*) from shop.orders"
    assert sql(shop, f"{count} FOR TAG 'it''s monday'") == sql(shop, f"{count} FOR VERSION AS OF 2") == [[4]]
    assert sql(shop, f"{count} for tag 'it''s monday' as o where o.id > 1") == [[2]]
