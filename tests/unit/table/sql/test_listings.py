"""DESCRIBE and SHOW, and the comments that they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter

ORDERS = "CREATE TABLE orders (id INT, status STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"


@pytest.fixture
def shop(tmp_path: Path) -> Interpreter:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("shop")
    made = Interpreter(catalog, "shop")
    list(made.run(ORDERS))
    return made


def rows(shop: Interpreter, statement: str) -> list[dict[str, object]]:
    (*_, result) = shop.run(statement)
    found: list[dict[str, object]] = result.to_pylist()
    return found


def refusal(shop: Interpreter, statement: str) -> str:
    with pytest.raises(PenstockError) as refused:
        list(shop.run(statement))
    return str(refused.value)


def test_comments_of_a_table_and_its_columns_are_set_and_removed(shop: Interpreter) -> None:
    script = "COMMENT ON TABLE orders IS 'all'; COMMENT ON COLUMN shop.orders.status IS 'how far'"
    rows(shop, script)
    created = str(rows(shop, "SHOW CREATE TABLE orders")[0]["statement"])
    assert "`status` STRING COMMENT 'how far'" in created
    assert "COMMENT 'all'" in created
    rows(shop, "COMMENT ON TABLE orders IS NULL; COMMENT ON COLUMN orders.status IS NULL")
    assert "COMMENT" not in str(rows(shop, "SHOW CREATE TABLE orders")[0]["statement"])
    assert "the table has no column 'stat'" in refusal(shop, "COMMENT ON COLUMN orders.stat IS 'x'")
    assert "COMMENT ON COLUMN t.c IS 'x'" in refusal(shop, "COMMENT ON COLUMN status IS 'x'")
    assert "keeps no properties of databases" in refusal(shop, "COMMENT ON DATABASE shop IS 'x'")
    assert "COMMENT ON DATABASE, TABLE or COLUMN is expected" in refusal(shop, "COMMENT ON VIEW shop IS 'x'")


def test_a_column_is_described_alone(shop: Interpreter) -> None:
    described = {"column": "id", "type": "INT", "nullable": False, "key": "PRI", "default": None, "comment": None}
    for statement in (
        "DESCRIBE orders id",
        "DESCRIBE orders ID",
        "DESC EXTENDED shop.orders id",
        "DESCRIBE TABLE orders `id`",
    ):
        assert rows(shop, statement) == [described]
    assert [snapshot["column"] for snapshot in rows(shop, "DESCRIBE `orders$snapshots` commit_kind")] == ["commit_kind"]
    assert "did you mean status?" in refusal(shop, "DESCRIBE orders statsu")


def test_a_description_has_the_defaults_of_columns(shop: Interpreter) -> None:
    rows(shop, "ALTER TABLE orders ALTER COLUMN status SET DEFAULT 'new'")
    assert {one["column"]: one["default"] for one in rows(shop, "DESCRIBE orders")}["status"] == "new"
    assert [one["default"] for one in rows(shop, "DESCRIBE orders id")] == [None]


def test_a_database_is_described_with_extended_too(shop: Interpreter) -> None:
    assert rows(shop, "DESCRIBE DATABASE EXTENDED shop") == rows(shop, "DESCRIBE DATABASE shop")
    assert rows(shop, "DESCRIBE DATABASE shop") == [{"key": "name", "value": "shop"}]


@pytest.mark.parametrize("statement", ["SELECT * FROM information_schema.tables", "FROM INFORMATION_SCHEMA.columns"])
def test_tables_of_the_engine_that_do_not_know_the_warehouse_are_refused(shop: Interpreter, statement: str) -> None:
    assert "SHOW TABLES" in refusal(shop, statement)


def test_a_database_with_tables_is_dropped_by_cascade_only(shop: Interpreter) -> None:
    assert "CASCADE in SQL" in refusal(shop, "DROP DATABASE shop")
