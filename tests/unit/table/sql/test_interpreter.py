"""Statements of SQL that change rows: INSERT, UPDATE, DELETE and MERGE, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import penstock
from penstock.table.sql.queries.session import Session
from tests.locked_catalog import install
from tests.unit.table.sql.orders_shop import ORDERS, OrdersShop, opened_shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[OrdersShop]:
    with opened_shop(tmp_path) as shop:
        yield shop


@pytest.mark.slow
def test_rows_are_inserted_with_defaults_and_types_of_the_table(shop: OrdersShop) -> None:
    result = shop.run("INSERT INTO orders PARTITION (dt = 'c') (Status, id) SELECT 'x', '10'")
    assert result.to_pylist() == [{"inserted": 1, "updated": 0, "deleted": 0, "snapshot": 2}]
    assert shop.rows() == [
        (1, "new", Decimal("3.10"), "a"),
        (2, "new", Decimal("1.50"), "a"),
        (3, "paid", Decimal("7.00"), "b"),
        (10, "x", Decimal("1.50"), "c"),
    ]
    shop.run("INSERT INTO orders BY NAME SELECT 'd' AS dt, 11 AS ID")
    assert shop.rows("SELECT * FROM orders WHERE id = 11") == [(11, None, Decimal("1.50"), "d")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("INSERT INTO orders VALUES (1, 'x')", "2 values are inserted into 4 columns"),
        ("INSERT INTO orders (id, id) VALUES (1, 2)", "written twice"),
        ("INSERT INTO orders (id, nothing) VALUES (1, 2)", "no column 'nothing'"),
        ("INSERT INTO orders (id, status) VALUES (1, 'x')", "Cannot write null to non-null column(dt)"),
        ("INSERT INTO orders VALUES ('x', 'x', 1, 'a')", "Could not convert string 'x'"),
        ("INSERT INTO orders VALUES (1, 'x', 123456789012, 'a')", "Could not cast"),
        ("INSERT INTO orders PARTITION (id = 1) SELECT 'x', 1, 'a'", "'id' is not a partition column"),
        ("INSERT INTO orders SELECT * FROM nowhere", "there is no table nowhere"),
        ("INSERT INTO nowhere VALUES (1)", "there is no table"),
        ("INSERT INTO orders$snapshots VALUES (1)", "is a system table"),
        ("INSERT INTO orders SELECT CAST(range AS INT), 'x', error('no'), 'a' FROM range(200000)", "no"),
        ("UPDATE orders SET id = 2", "a part of the key"),
        ("UPDATE orders SET nothing = 2", "no column 'nothing'"),
        ("UPDATE orders SET amount = 'x'", "Could not convert string"),
        ("DELETE FROM orders WHERE nothing = 1", "not found in FROM clause"),
        ("CREATE TABLE orders (id INT)", "exists already"),
        ("CREATE TABLE u AS SELECT CAST('x' AS INT) AS a", "Could not convert string"),
        ("CREATE TABLE u AS SELECT NULL AS a", "the column 'a' has no type"),
        ("ALTER TABLE orders DROP COLUMN nothing", "nothing"),
        ("ALTER TABLE orders ADD (c INT, id INT)", "id"),
        ("DROP TABLE nowhere", "there is no table"),
        ("DROP DATABASE shop", "is not empty"),
        ("USE nowhere", "there is no database"),
        ("TRUNCATE TABLE orders$snapshots", "is a system table"),
        ("CALL sys.nothing('orders')", "there is no procedure 'nothing'"),
        ("CALL sys.create_tag('orders')", "needs the argument 'tag'"),
        ("CALL sys.compact('orders', frob => 1)", "'frob' of compact is unknown"),
        ("SET 'execution.runtime-mode' = 'automatic'", "not supported here"),
        ("SET 'frob' = 'x'", "is not supported"),
        ("SELECT * FROM a.b.c.d", "a.b.c.d"),
    ],
)
def test_a_refused_statement_changes_nothing_and_names_its_position(
    shop: OrdersShop, script: str, message: str
) -> None:
    error = shop.refused(f"SELECT 1;\n  {script}")
    assert message in str(error)
    assert error.facts["line"] == 2


@pytest.mark.slow
def test_an_error_of_the_engine_has_its_position_in_the_statement(shop: OrdersShop) -> None:
    error = shop.refused("SELECT 1;\nSELECT id,\n  foo FROM orders")
    assert (error.facts["line"], error.facts["column"]) == (3, 3)
    error = shop.refused("UPDATE orders\nSET amount = foo + 1 WHERE id = 1")
    assert (error.facts["line"], error.facts["column"]) == (2, 14)


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders SELECT CAST(range AS INT), 'x', 1, if(range < 150000, 'a', error('no')) FROM range(200000)",
        "INSERT OVERWRITE orders SELECT CAST(range AS INT), 'x', 1, "
        "if(range < 150000, 'a', error('no')) FROM range(200000)",
        "CREATE TABLE u AS SELECT range AS a, if(range < 150000, 'a', error('no')) AS b FROM range(200000)",
    ],
)
def test_a_statement_that_fails_half_way_leaves_no_file(shop: OrdersShop, statement: str) -> None:
    def files() -> set[Path]:
        return {path for path in Path(shop.catalog.warehouse).rglob("*") if path.is_file()}

    before = files()
    assert "no" in str(shop.refused(statement))
    assert files() == before


@pytest.mark.slow
def test_another_kind_of_catalog_keeps_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch)
    warehouse, options = f"memory://{tmp_path}", {"metastore": "locked", "place": f"{tmp_path}/places"}
    found = penstock.sql(f"{ORDERS} ALTER TABLE orders RENAME TO o; SELECT * FROM o", warehouse, options=options)
    assert found.num_rows == 3
    assert penstock.sql("SHOW TABLES", warehouse, options=options).to_pylist() == [{"database": "shop", "table": "o"}]
    penstock.sql("UPDATE shop.o SET status = 'x'; DROP DATABASE shop CASCADE", warehouse, options=options)
    assert penstock.sql("SHOW DATABASES", warehouse, options=options).num_rows == 0


@pytest.mark.slow
def test_an_overwrite_replaces_written_partitions_one_partition_or_the_table(shop: OrdersShop) -> None:
    shop.run("INSERT OVERWRITE orders SELECT 9, 'o', 1, 'a'")
    assert [row[0] for row in shop.rows()] == [3, 9]
    shop.run("INSERT OVERWRITE orders PARTITION (dt = 'b') SELECT id + 1, status, amount FROM orders WHERE dt = 'b'")
    assert [(row[0], row[3]) for row in shop.rows()] == [(4, "b"), (9, "a")]
    shop.run("INSERT OVERWRITE orders PARTITION (dt = 'b') SELECT 1, 'x', 1 WHERE false")
    assert [row[0] for row in shop.rows()] == [9]
    shop.run("INSERT INTO orders VALUES (1, 'x', 1, 'b')")
    hint = "/*+ OPTIONS('dynamic-partition-overwrite' = 'false') */"
    shop.run(f"INSERT OVERWRITE orders {hint} SELECT * FROM orders WHERE id = 1")
    assert [row[0] for row in shop.rows()] == [1]
    shop.run("INSERT INTO orders VALUES (2, 'x', 1, 'c'); SET spark.sql.sources.partitionOverwriteMode = static")
    shop.run("INSERT OVERWRITE orders SELECT * FROM orders WHERE id = 2")
    assert [row[0] for row in shop.rows()] == [2]


@pytest.mark.slow
def test_rows_are_updated_by_one_commit(shop: OrdersShop) -> None:
    result = shop.run("UPDATE orders o SET amount = o.amount * 2, status = upper(status) WHERE dt = 'a'")
    assert result.to_pylist() == [{"inserted": 0, "updated": 2, "deleted": 0, "snapshot": 2}]
    assert shop.rows("SELECT id, status, amount FROM orders ORDER BY id") == [
        (1, "NEW", Decimal("6.20")),
        (2, "NEW", Decimal("3.00")),
        (3, "paid", Decimal("7.00")),
    ]
    assert shop.run("UPDATE orders SET status = 'x' WHERE id = 99").to_pylist()[0]["snapshot"] is None
    shop.run("UPDATE orders SET status = (SELECT max(status) FROM orders) WHERE id = 1")
    assert shop.rows("SELECT status FROM orders WHERE id = 1") == [("paid",)]


@pytest.mark.slow
def test_the_changelog_of_an_update_contains_the_old_row(shop: OrdersShop) -> None:
    shop.run("ALTER TABLE orders SET ('changelog-producer' = 'input'); UPDATE orders SET status = 'x' WHERE id = 1")
    shop.run("DELETE FROM orders WHERE id = 2")
    query = "SELECT rowkind, id, status FROM orders$audit_log /*+ OPTIONS('incremental-between' = '1,3') */"
    assert shop.rows(query) == [("-U", 1, "new"), ("+U", 1, "x"), ("-D", 2, "new")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("id = 1", [2, 3]),
        ("dt = 'a'", [3]),
        ("amount IS NULL", [1, 2, 3]),
        ("id IN (SELECT max(id) FROM orders)", [1, 2]),
    ],
)
def test_rows_are_deleted(shop: OrdersShop, where: str, left: list[int]) -> None:
    result = shop.run(f"DELETE FROM orders WHERE {where}").to_pylist()[0]
    assert result["deleted"] == 3 - len(left)
    assert [row[0] for row in shop.rows()] == left


@pytest.mark.slow
def test_a_delete_without_condition_empties_the_table(shop: OrdersShop) -> None:
    assert shop.run("DELETE FROM orders").to_pylist()[0]["deleted"] == 3
    assert shop.rows() == []
    shop.run("INSERT INTO orders VALUES (1, 'x', 1, 'b'); TRUNCATE TABLE orders")
    assert shop.rows() == []


@pytest.mark.slow
def test_tables_without_keys_are_deleted_from(shop: OrdersShop) -> None:
    shop.run("CREATE TABLE log (a INT, b STRING); INSERT INTO log VALUES (1, 'x'), (2, 'y'), (2, 'y')")
    shop.run("DELETE FROM log AS l WHERE l.a = 1")
    assert shop.rows("SELECT * FROM log") == [(2, "y"), (2, "y")]
    result = shop.run("DELETE FROM log WHERE a IN (SELECT id FROM orders)").to_pylist()[0]
    assert result["deleted"] == 2
    assert shop.rows("SELECT * FROM log") == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["aggregation", "first-row"])
def test_merge_engines_that_do_not_replace_values_refuse_updates(shop: OrdersShop, engine: str) -> None:
    shop.run(f"CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('merge-engine' = '{engine}')")
    assert engine in str(shop.refused("UPDATE t SET v = 1"))


@pytest.mark.slow
def test_a_table_with_kinds_in_a_column_refuses_updates(shop: OrdersShop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, k STRING) WITH ('rowkind.field' = 'k')")
    assert "the kind of a row" in str(shop.refused("UPDATE t SET k = '+I'"))


@pytest.mark.slow
def test_partial_updates_cannot_set_null(shop: OrdersShop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('merge-engine' = 'partial-update')")
    shop.run("INSERT INTO t VALUES (1, 1), (2, NULL); UPDATE t SET v = v + 1")
    assert shop.rows("SELECT * FROM t ORDER BY id") == [(1, 2), (2, None)]
    assert "cannot be set to null" in str(shop.refused("UPDATE t SET v = NULL"))
    assert "cannot be set to null" in str(shop.refused("UPDATE t SET v = CASE WHEN id = 2 THEN 5 END"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "seq", "refused"),
    [
        ("ascending", "seq - 1", True),
        ("ascending", "NULL", True),
        ("ascending", "seq", False),
        ("ascending", "seq + 1", False),
        ("descending", "seq + 1", True),
        ("descending", "seq - 1", False),
    ],
)
def test_an_update_that_the_sequence_field_would_ignore_is_refused(
    shop: OrdersShop, order: str, seq: str, refused: bool
) -> None:
    options = f"'sequence.field' = 'seq', 'sequence.field.sort-order' = '{order}'"
    shop.run(f"CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v INT, seq INT) WITH ({options})")
    shop.run("INSERT INTO t VALUES (1, 1, 10)")
    update = f"UPDATE t SET v = 2, seq = {seq}"
    if refused:
        assert "the update would be ignored" in str(shop.refused(update))
    else:
        shop.run(update)
    assert shop.rows("SELECT v FROM t") == [(1 if refused else 2,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value"),
    [("scan.snapshot-id", "1"), ("scan.fallback-branch", "b"), ("incremental-between", "0,1"), ("scan.tag-name", "t")],
)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE orders SET status = 'x'",
        "DELETE FROM orders WHERE id = 1",
        "MERGE INTO orders o USING (SELECT 1 AS id) s ON o.id = s.id WHEN MATCHED THEN UPDATE SET status = 'x'",
    ],
)
def test_changes_are_made_to_the_newest_rows_only(shop: OrdersShop, option: str, value: str, statement: str) -> None:
    shop.run("CALL sys.create_tag('orders', 't'); CALL sys.create_branch('orders', 'b', 't')")
    shop.run(f"INSERT INTO orders VALUES (1, 'second', 1, 'a'); ALTER TABLE orders SET ('{option}' = '{value}')")
    assert option in str(shop.refused(statement))
    shop.run(f"ALTER TABLE orders RESET ('{option}'); {statement}")


@pytest.mark.slow
def test_texts_in_double_quotes_are_explained(shop: OrdersShop) -> None:
    assert "texts are in single quotes" in str(shop.refused('SELECT * FROM orders WHERE status = "new"'))


@pytest.mark.slow
def test_a_merge_runs_the_first_clause_that_applies(shop: OrdersShop) -> None:
    shop.run(
        "CREATE TABLE s AS SELECT 1 AS id, 'gone' AS status, true AS gone "
        "UNION ALL VALUES (7, 'fresh', false), (3, 'upd', false)"
    )
    result = shop.run(
        "MERGE INTO orders t USING s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET status = s.status "
        "WHEN NOT MATCHED AND status = 'fresh' THEN INSERT (id, status, dt) VALUES (id, s.status, 'z') "
        "WHEN NOT MATCHED BY SOURCE AND dt = 'a' THEN UPDATE SET status = 'stale'"
    )
    assert result.to_pylist() == [{"inserted": 1, "updated": 2, "deleted": 1, "snapshot": 2}]
    assert shop.rows("SELECT id, status, dt FROM orders ORDER BY id") == [
        (2, "stale", "a"),
        (3, "upd", "b"),
        (7, "fresh", "z"),
    ]


@pytest.mark.slow
def test_a_merge_with_stars_copies_columns_by_name(shop: OrdersShop) -> None:
    shop.run(
        "CREATE TABLE s AS SELECT 'a' AS dt, 1 AS ID, 5 AS amount, 'x' AS status UNION ALL VALUES ('q', 8, 6, 'y')"
    )
    shop.run(
        "MERGE INTO orders USING s ON orders.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert shop.rows("SELECT id, status, dt FROM orders ORDER BY id")[::3] == [(1, "x", "a"), (8, "y", "q")]
    missing = "MERGE INTO orders USING (SELECT 1 AS id) AS s ON orders.id = s.id WHEN NOT MATCHED THEN INSERT *"
    assert "the source has no column 'status'" in str(shop.refused(missing))


@pytest.mark.slow
def test_target_and_source_of_a_merge_have_different_names(shop: OrdersShop) -> None:
    error = shop.refused("MERGE INTO orders USING orders ON orders.id = orders.id WHEN MATCHED THEN DELETE")
    assert "have the same name 'orders'" in str(error)
    assert "MERGE INTO t AS x" in str(error)


@pytest.mark.slow
def test_a_target_row_is_changed_by_one_source_row(shop: OrdersShop) -> None:
    twice = "USING (SELECT 3 AS id UNION ALL SELECT 3) s ON orders.id = s.id"
    error = shop.refused(f"MERGE INTO orders {twice} WHEN MATCHED THEN UPDATE SET status = 'q'")
    assert "several source rows would change one row" in str(error)
    shop.run(f"MERGE INTO orders {twice} WHEN MATCHED THEN DELETE")
    assert [row[0] for row in shop.rows()] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE orders SET amount = amount + 1", [("other", Decimal(101))]),
        ("DELETE FROM orders WHERE amount > 3", []),
        (
            "MERGE INTO orders o USING orders s ON o.id = s.id WHEN MATCHED THEN UPDATE SET amount = o.amount + 1",
            [("other", Decimal(101))],
        ),
    ],
)
def test_rows_of_another_job_are_never_lost(
    shop: OrdersShop, statement: str, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job changes a row between the beginning of a statement and the reading of its rows."""
    rows, others = Session.prepared, [True]

    def prepared(self: Session, sql: str) -> str:
        text = rows(self, sql)
        if others and "orders" in sql:
            others.clear()
            penstock.sql("INSERT INTO shop.orders VALUES (1, 'other', 100, 'a')", shop.catalog.warehouse)
        return text

    monkeypatch.setattr(Session, "prepared", prepared)
    shop.run(statement)
    assert not others
    assert shop.rows("SELECT status, amount FROM orders WHERE id = 1") == expected


def test_a_merge_computes_no_copied_columns_beside_the_join(shop: OrdersShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for which DuckDB plans these grows with their square: with 2,000 columns a MERGE did not end."""
    shop.run("CREATE TABLE s (id INT, dt STRING, amount INT, status STRING)")
    shop.run("INSERT INTO s VALUES (1, 'a', 70, 'new'), (99, 'b', 80, 'more')")
    statements: list[str] = []
    run = Session.run
    monkeypatch.setattr(Session, "run", lambda self, text: (statements.append(text), run(self, text))[1])
    shop.run(
        "MERGE INTO orders USING s ON orders.id = s.id AND orders.dt = s.dt"
        " WHEN MATCHED THEN UPDATE SET amount = s.amount + 1 WHEN NOT MATCHED THEN INSERT *"
    )
    beside = [text.partition(" FROM (SELECT CASE")[2] for text in statements if "_in_target" in text]
    assert [text.count("CASE clause") for text in beside] == [1]
    assert {(1, 71), (99, 80)} <= set(shop.rows("SELECT id, amount FROM orders"))
