"""Statements about databases and tables in SQL without Spark: CREATE, ALTER, DESCRIBE, SHOW and CALL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.sql.interpreter import Interpreter
from tests.unit.table.sql.orders_shop import OrdersShop, opened_shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[OrdersShop]:
    with opened_shop(tmp_path) as shop:
        yield shop


def test_a_table_is_created_from_a_query_or_like_another(shop: OrdersShop) -> None:
    shop.run("CREATE TABLE copy WITH ('primary-key' = 'id', 'bucket' = '1') AS SELECT id, amount FROM orders")
    assert shop.rows("SELECT id FROM copy ORDER BY id") == [(1,), (2,), (3,)]
    assert shop.catalog.table("shop.copy").primary_keys == ["id"]
    shop.run("CREATE TABLE IF NOT EXISTS copy AS SELECT 1 AS other")
    assert shop.rows("SELECT count(*) FROM copy") == [(3,)]
    shop.run("CREATE TABLE alike LIKE orders WITH ('bucket' = '3'); CREATE TABLE bare LIKE orders (EXCLUDING OPTIONS)")
    like, alike, bare = (shop.catalog.table(f"shop.{name}") for name in ("orders", "alike", "bare"))
    assert alike.definition.fields == like.definition.fields
    assert (alike.primary_keys, alike.partition_keys) == (like.primary_keys, like.partition_keys)
    assert (alike.options["bucket"], bare.options) == ("3", {})
    shop.run(
        "CREATE TABLE flink LIKE orders (INCLUDING ALL EXCLUDING OPTIONS EXCLUDING WATERMARKS INCLUDING CONSTRAINTS)"
    )
    assert shop.catalog.table("shop.flink").options == {}


def test_describe_extended_shows_what_the_table_has_beside_columns(shop: OrdersShop) -> None:
    shop.run("ALTER TABLE orders SET COMMENT 'all of them'")
    columns = [(*row[:2], str(row[2]).lower(), *row[3:]) for row in shop.rows("DESCRIBE orders")]
    expected = {
        "Name": "shop.orders",
        "Comment": "all of them",
        "Location": shop.catalog.table("shop.orders").path,
        "Primary Key": "id, dt",
        "Partition Columns": "dt",
        "Table Properties": "bucket=2",
    }
    for words in ("EXTENDED", "TABLE EXTENDED", "FORMATTED"):
        described = shop.rows(f"DESCRIBE {words} orders")
        assert described[: len(columns)] == columns
        assert {row[0]: row[1] for row in described[len(columns) + 2 :]} == expected
        assert {row[2] for row in described[len(columns) :]} == {""}  # and not NULL
    shop.run("CREATE TABLE bare (a INT)")
    assert [row[0] for row in shop.rows("DESCRIBE EXTENDED bare")][-2:] == ["Name", "Location"]
    assert shop.rows("DESCRIBE EXTENDED `orders$snapshots`") == shop.rows("DESCRIBE `orders$snapshots`")


@pytest.mark.slow
def test_a_table_is_altered_in_one_version(shop: OrdersShop) -> None:
    shop.run("ALTER TABLE orders ADD (a INT AFTER id, b STRING COMMENT 'x')")
    assert shop.catalog.table("shop.orders").schema_id == 1
    shop.run("ALTER TABLE orders MODIFY a BIGINT COMMENT 'wide' AFTER b; ALTER TABLE orders RENAME b TO c")
    shop.run(
        "ALTER TABLE orders ALTER COLUMN c SET DEFAULT 'd'; ALTER TABLE orders SET ('snapshot.num-retained.max' = '99')"
    )
    described = shop.rows("DESCRIBE orders")
    assert [row[0] for row in described] == ["id", "status", "amount", "dt", "c", "a"]
    assert described[-2:] == [("c", "STRING", True, "", "d", "x"), ("a", "BIGINT", True, "", None, "wide")]
    shop.run("INSERT INTO orders (id, dt) VALUES (9, 'a')")
    assert shop.rows("SELECT a, c FROM orders WHERE id IN (1, 9) ORDER BY id") == [(None, None), (None, "d")]
    shop.run("ALTER TABLE orders DROP COLUMNS (a, c); ALTER TABLE orders RESET ('snapshot.num-retained.max')")
    shop.run("ALTER TABLE orders RENAME TO sales; ALTER TABLE IF EXISTS nowhere DROP COLUMN x")
    assert shop.rows("SHOW TABLES") == [("shop", "sales")]
    shop.run("ALTER TABLE sales DROP PARTITION (dt = 'a')")
    assert shop.rows("SELECT id FROM sales") == [(3,)]


def test_the_partition_of_null_is_listed_by_the_name_that_statements_use(shop: OrdersShop) -> None:
    """It was listed as `dt=None`, which DROP PARTITION does not find."""
    shop.run(
        "CREATE TABLE p (id INT, dt STRING, n INT) PARTITIONED BY (dt, n) WITH ('partition.default-name' = 'none')"
    )
    shop.run("INSERT INTO p VALUES (1, NULL, 1), (2, 'None', NULL)")
    assert shop.rows("SHOW PARTITIONS p") == [("dt=None/n=none",), ("dt=none/n=1",)]
    assert shop.rows("CALL sys.mark_partition_done('p', 'dt=none,n=1')") == [("dt=none,n=1",)]
    shop.run("ALTER TABLE p DROP PARTITION (dt = 'none', n = '1')")
    assert shop.rows("SELECT id FROM p") == [(2,)]


def test_listings_show_existing_objects(shop: OrdersShop) -> None:
    assert shop.rows("SHOW DATABASES") == [("shop",)]
    assert shop.rows("SHOW TABLES LIKE 'x*|ord%'") == [("shop", "orders")]
    assert shop.rows("SHOW PARTITIONS orders") == [("dt=a",), ("dt=b",)]
    assert shop.rows("SHOW COLUMNS IN orders") == [("id",), ("status",), ("amount",), ("dt",)]
    assert shop.rows("SHOW COLUMNS FROM orders LIKE '%t%'") == [("status",), ("amount",), ("dt",)]
    assert shop.rows("SHOW TBLPROPERTIES orders") == [("bucket", "2"), ("primary-key", "id,dt")]
    assert ("compact",) in shop.rows("SHOW PROCEDURES")
    [[text]] = shop.rows("SHOW CREATE TABLE orders")
    before = shop.catalog.table("shop.orders").definition
    shop.run(f"DROP TABLE orders; {text}")
    after = shop.catalog.table("shop.orders").definition
    assert (after.fields, after.options, after.primary_keys) == (before.fields, before.options, before.primary_keys)


@pytest.mark.slow
def test_procedures_call_operations_of_the_library(shop: OrdersShop) -> None:
    shop.run(
        "INSERT INTO orders VALUES (4, 'x', 1, 'b'); CALL sys.compact('orders'); CALL sys.create_tag('orders', 't', 1)"
    )
    shop.run("CALL sys.create_branch('orders', 'b', 't'); INSERT INTO orders$branch_b VALUES (9, 'b', 1, 'a')")
    assert shop.rows("SELECT count(*) FROM orders$branch_b") == [(4,)]
    assert shop.rows("CALL sys.rollback('orders', '1')") == [("snapshot 1",), ("removed snapshots 2 to 3",)]
    assert [row[0] for row in shop.rows()] == [1, 2, 3]
    shop.run(
        "CALL sys.rename_tag('orders', 't', 'u'); CALL sys.delete_branch('orders', 'b'); "
        "CALL sys.delete_tag('orders', 'u')"
    )
    assert shop.catalog.table("shop.orders").tags == {}
    shop.run("CALL sys.drop_partition('orders', 'dt=a'); CALL sys.expire_snapshots('orders', retain_max => 1)")
    assert [row[0] for row in shop.rows()] == [3]
    assert shop.rows("CALL sys.remove_orphan_files('orders', dry_run => true)") == []


def test_databases_are_created_and_dropped_with_their_tables(shop: OrdersShop) -> None:
    shop.run(
        "CREATE DATABASE IF NOT EXISTS shop; DROP TABLE orders; DROP TABLE IF EXISTS orders; CREATE TABLE t (a INT)"
    )
    shop.run("DROP DATABASE shop CASCADE; DROP DATABASE IF EXISTS shop")
    assert shop.rows("SHOW DATABASES") == []


@pytest.mark.slow
def test_a_script_opens_its_catalogs(tmp_path: Path) -> None:
    script = f"""
        CREATE CATALOG one WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}/one');
        CREATE CATALOG two WITH ('type' = 'paimon', 'warehouse' = 'file://{tmp_path}/two', 'default-database' = 'd');
        USE CATALOG one;
        CREATE TABLE t (a INT);
        INSERT INTO one.default.t VALUES (1);
        CREATE TEMPORARY VIEW v AS SELECT a FROM one.default.t;
        USE two.d;
        CREATE TABLE t (a STRING);
        USE one;
        SELECT v.a FROM one.default.t, v
    """
    assert penstock.sql(script).to_pylist() == [{"a": 1}]
    assert penstock.sql("SHOW TABLES", tmp_path / "two").to_pylist() == [{"database": "d", "table": "t"}]
    with Interpreter(penstock.Catalog(tmp_path / "one")) as interpreter:
        opened = f"CREATE CATALOG two WITH ('warehouse' = '{tmp_path}/two'); SHOW CATALOGS"
        assert list(interpreter.run(opened))[-1]["catalog"].to_pylist() == ["default_catalog", "two"]
        for wrong, message in (
            ("INSERT INTO two.d.t VALUES ('x')", "is not a table of the current catalog"),
            ("USE CATALOG three", "there is no catalog 'three'"),
            ("DROP CATALOG default_catalog", "is in use"),
            ("USE two.nowhere", "there is no database 'nowhere'"),
            (opened, "exists already"),
        ):
            with pytest.raises(ConfigError, match=message):
                list(interpreter.run(wrong))
        assert list(interpreter.run("DROP CATALOG two; SHOW CURRENT CATALOG"))[-1].num_rows == 1


def test_a_script_without_a_catalog_has_a_hint() -> None:
    with pytest.raises(ConfigError, match="no catalog is in use") as caught:
        penstock.sql("SELECT 1")
    assert "CREATE CATALOG" in str(caught.value)


def test_options_of_other_engines_are_reported_as_without_effect(shop: OrdersShop) -> None:
    for statement in ("SET 'parallelism.default' = '2'", "RESET 'parallelism.default'"):
        assert shop.rows(statement) == [("parallelism.default has no effect here",)]
    assert "'runtime-mode' is not supported" in str(shop.refused("RESET 'runtime-mode'"))
    assert shop.rows("SET 'execution.runtime-mode' = 'batch'; RESET") == [("OK",)]
