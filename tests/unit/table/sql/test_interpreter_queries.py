"""Queries in SQL without Spark: views, older snapshots, system tables and table functions."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from tests.unit.table.sql.orders_shop import OrdersShop, opened_shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[OrdersShop]:
    with opened_shop(tmp_path) as shop:
        yield shop


def test_the_current_database_is_the_one_in_use(shop: OrdersShop) -> None:
    shop.run("CREATE DATABASE other; USE other")
    assert shop.rows("SELECT current_database(), current_schema()") == [("other", "other")]


@pytest.mark.parametrize(
    "name",
    [
        "default.nowhere",
        "`default`.nowhere",
        "nowhere FOR VERSION AS OF 1",
        "shop.nowhere TIMESTAMP AS OF '2026-01-31'",
        "nowhere /*+ OPTIONS('scan.snapshot-id' = '1') */",
    ],
)
def test_a_missing_table_is_named_in_every_form(shop: OrdersShop, name: str) -> None:
    refused = shop.refused(f"SELECT *\nFROM {name}")
    assert refused.message.startswith("there is no table ")
    assert "nowhere" in refused.message
    assert (refused.facts["line"], refused.facts["column"]) == (2, 6)


@pytest.mark.parametrize("name", ["prepared", "self", "pa"])
def test_a_variable_of_the_code_is_no_table(shop: OrdersShop, name: str) -> None:
    assert shop.refused(f"SELECT * FROM {name}").message == f"there is no table {name}"


@pytest.mark.slow
def test_views_read_the_newest_snapshot_of_each_statement(shop: OrdersShop) -> None:
    shop.run("CREATE TEMPORARY VIEW v AS SELECT id FROM orders; INSERT INTO orders VALUES (4, 'x', 1, 'b')")
    assert shop.rows("SELECT count(*) FROM v") == [(4,)]
    shop.run("DROP VIEW v")
    assert "v" in str(shop.refused("SELECT * FROM v"))


@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        ("DROP VIEW nowhere", "there is no temporary view nowhere", "SHOW VIEWS"),
        ("DROP VIEW neww", "there is no temporary view neww", "did you mean new?"),
        ("DROP VIEW orders", "orders is a table, and not a view", "DROP TABLE"),
    ],
)
def test_a_view_to_drop_that_is_missing_is_named(shop: OrdersShop, statement: str, message: str, hint: str) -> None:
    """DuckDB proposed tables of its own, such as pg_indexes."""
    shop.run("CREATE TEMPORARY VIEW new AS SELECT * FROM orders WHERE status = 'new'")
    refused = shop.refused(statement)
    assert refused.message == message
    assert hint in (refused.hint or "")
    assert (refused.facts["line"], refused.facts["column"]) == (1, 1)
    shop.run("DROP VIEW IF EXISTS nowhere; DROP VIEW new")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("WITH orders AS (SELECT 5 AS id) SELECT id FROM orders", [5]),
        ("WITH o (id) AS MATERIALIZED (SELECT 5), Orders AS (SELECT * FROM o) SELECT id FROM orders", [5]),
        ("WITH orders AS (SELECT id + 10 AS id FROM orders) SELECT id FROM orders ORDER BY id", [11, 12, 13]),
        ("WITH o AS (SELECT 2 AS id) SELECT orders.id FROM o, orders WHERE o.id = orders.id", [2]),
        ("CREATE TEMPORARY VIEW orders AS SELECT id FROM orders WHERE id > 2; SELECT id FROM orders", [3]),
        ("SELECT id FROM orders WHERE id IS DISTINCT FROM id OR id = 1", [1]),
    ],
)
def test_a_cte_name_hides_a_table(shop: OrdersShop, query: str, ids: list[int]) -> None:
    assert [row[0] for row in shop.rows(query)] == ids


@pytest.mark.parametrize(
    "above", ["SELECT id FROM {v}", "SELECT id FROM w", "SELECT id FROM shop.orders, (SELECT 1 FROM w)"]
)
@pytest.mark.parametrize("name", ["v", "V"])
def test_a_view_that_would_read_itself_is_refused_and_the_old_one_remains(
    shop: OrdersShop, name: str, above: str
) -> None:
    shop.run(
        "CREATE TEMPORARY VIEW v AS SELECT id FROM orders WHERE id > 2; CREATE TEMPORARY VIEW w AS SELECT id FROM v"
    )
    with pytest.raises(ConfigError, match=f"the view {name} would read itself"):
        shop.run(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {above.format(v=name.swapcase())}")
    assert shop.rows("SELECT id FROM w") == [(3,)]
    shop.run("DROP VIEW v; CREATE OR REPLACE TEMPORARY VIEW w AS SELECT id + 1 AS id FROM orders WHERE id = 1")
    shop.run("CREATE TEMPORARY VIEW v AS SELECT id FROM w")
    assert shop.rows("SELECT id FROM v") == [(2,)]


def test_a_view_that_reads_itself_by_views_that_were_replaced_is_refused(shop: OrdersShop) -> None:
    shop.run(
        "CREATE TEMPORARY VIEW u AS SELECT id FROM orders WHERE id > 2;"
        "CREATE TEMPORARY VIEW v AS SELECT id FROM orders;"
        "CREATE TEMPORARY VIEW w AS SELECT id FROM v; CREATE OR REPLACE TEMPORARY VIEW v AS SELECT id FROM u"
    )
    with pytest.raises(ConfigError, match="the view u would read itself"):
        shop.run("CREATE OR REPLACE TEMPORARY VIEW u AS SELECT id FROM w")
    assert shop.rows("SELECT id FROM w") == [(3,)]
    shop.run("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT id + 1 AS id FROM orders WHERE id = 3")
    shop.run("CREATE OR REPLACE TEMPORARY VIEW u AS SELECT id FROM w")
    assert shop.rows("SELECT id FROM u") == [(4,)]


def test_a_view_is_refused_as_reading_itself_only_if_it_does(shop: OrdersShop) -> None:
    shop.run("CREATE TEMPORARY VIEW v AS SELECT id FROM orders WHERE id > 2")
    with pytest.raises(ConfigError, match="would read itself"):
        shop.run("CREATE OR REPLACE TEMPORARY VIEW v AS WITH v AS (SELECT id FROM v) SELECT id FROM v")
    shop.run("CREATE TEMPORARY VIEW IF NOT EXISTS v AS SELECT id FROM v")
    with pytest.raises(ConfigError, match="already exists"):
        shop.run("CREATE TEMPORARY VIEW v AS SELECT id FROM v")
    assert shop.rows("SELECT id FROM v") == [(3,)]
    shop.run("CREATE OR REPLACE TEMPORARY VIEW v AS WITH v AS (SELECT 7 AS id) SELECT id FROM v")
    assert shop.rows("SELECT id FROM v") == [(7,)]


@pytest.mark.slow
def test_times_are_cut_to_the_precision_of_the_column(shop: OrdersShop) -> None:
    shop.run("CREATE TABLE times (a TIMESTAMP_LTZ(3), b TIMESTAMP_LTZ(0), c TIMESTAMP(3), d TIMESTAMP(0), e TIME(3))")
    at = "'2026-01-31 12:00:00.123456'"
    shop.run(f"INSERT INTO times VALUES ({at}, TIMESTAMP {at}, {at}, {at}, '12:00:00.123')")
    query = "SELECT epoch_us(a), epoch_us(b), epoch_us(c), epoch_us(d), CAST(e AS VARCHAR) FROM times"
    second = 1769860800_000_000
    assert shop.rows(query) == [(second + 123_000, second, second + 123_000, second, "12:00:00.123")]


def test_one_statement_reads_one_snapshot(shop: OrdersShop) -> None:
    query = (
        "SELECT (SELECT count(*) FROM orders) - (SELECT count(*) FROM orders o2) AS n, orders FROM (SELECT 1 AS orders)"
    )
    assert shop.rows(query) == [(0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("orders VERSION AS OF 1", 3),
        ("orders FOR VERSION AS OF 'first'", 3),
        ("orders TIMESTAMP AS OF '2100-01-01 00:00:00'", 4),
        ("orders FOR SYSTEM_TIME AS OF TIMESTAMP '2100-01-01 00:00:00'", 4),
        ("orders /*+ OPTIONS('scan.snapshot-id' = '1') */ AS o WHERE o.dt = 'a'", 2),
        ("shop.orders$snapshots", 2),
        ("`orders$tags`", 1),
    ],
)
def test_older_snapshots_and_system_tables_are_read(shop: OrdersShop, query: str, count: int) -> None:
    shop.run("CALL sys.create_tag(table => 'shop.orders', tag => 'first'); INSERT INTO orders VALUES (4, 'x', 1, 'b')")
    assert shop.rows(f"SELECT count(*) FROM {query}") == [(count,)]


def test_sql_returns_the_rows_of_the_last_statement(tmp_path: Path) -> None:
    found = penstock.sql("CREATE DATABASE d; CREATE TABLE d.t (a INT); SELECT 1 AS one", warehouse=tmp_path)
    assert found.to_pylist() == [{"one": 1}]
    assert penstock.sql("SHOW TABLES", tmp_path, database="d").to_pylist() == [{"database": "d", "table": "t"}]
    with pytest.raises(ConfigError, match="contains no statement"):
        penstock.sql(" -- nothing", tmp_path)


def test_system_tables_of_a_snapshot_travel_in_time(shop: OrdersShop) -> None:
    shop.run("UPDATE orders SET status = 'sent'; CALL sys.create_tag('shop.orders', 'first', 1)")
    hint = "/*+ OPTIONS('scan.snapshot-id' = '1') */"
    assert shop.rows(f"SELECT count(*) FROM orders$files {hint}") == [(2,)]
    assert shop.rows("SELECT count(*) FROM orders$files") == [(4,)]
    assert shop.rows("SELECT count(*) FROM orders$files VERSION AS OF 'first'") == [(2,)]
    old = shop.rows("SELECT rowkind, id, status FROM orders$audit_log FOR VERSION AS OF 1 ORDER BY id")
    assert old == [("+I", 1, "new"), ("+I", 2, "new"), ("+I", 3, "paid")]
    assert shop.rows(f"SELECT sum(record_count) FROM orders$partitions {hint}") == [(3,)]
    assert shop.rows(f"SELECT count(*) FROM orders$manifests {hint}") == [(1,)]
    keys = "SELECT min_key, max_key, record_count, first_row_id FROM orders$file_key_ranges"
    assert shop.rows(f"{keys} {hint} ORDER BY 1") == [("[1]", "[2]", 2, None), ("[3]", "[3]", 1, None)]
    for system in ("$buckets", "$ro", "$binlog", "$table_indexes"):
        shop.rows(f"SELECT * FROM orders{system} {hint}")


@pytest.mark.slow
def test_rows_are_shown_with_their_ids_and_versions(shop: OrdersShop) -> None:
    shop.run("CREATE TABLE log (id INT, v STRING) WITH ('row-tracking.enabled' = 'true')")
    shop.run(
        """INSERT INTO log VALUES (1, 'a'), (2, 'b'); UPDATE log SET v = 'c' WHERE id = 2;
        INSERT INTO log (id) VALUES (3)"""
    )
    ids = "SELECT id, _ROW_ID, _SEQUENCE_NUMBER FROM log$row_tracking"
    assert shop.rows(f"{ids} ORDER BY id") == [(1, 0, 1), (2, 1, 2), (3, 4, 3)]
    # The file into which the update moved a row took two ids of its own, though its row keeps its id.
    assert shop.rows(f"{ids} VERSION AS OF 1 ORDER BY id") == [(1, 0, 1), (2, 1, 1)]
    assert shop.rows("SELECT max(first_row_id) FROM log$file_key_ranges") == [(4,)]
    assert "row-tracking.enabled = true" in str(shop.refused("SELECT * FROM orders$row_tracking"))
    assert "not supported" in str(shop.refused("SELECT * FROM orders$file_indexes"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("orders$snapshots FOR VERSION AS OF 1", "always shows the present state"),
        ("orders$files /*+ OPTIONS('scan.partitions' = 'dt=a') */", "is read at one snapshot"),
        ("orders$files VERSION AS OF 77", "snapshot 77"),
        ("orders$files /*+ OPTIONS('incremental-between' = '1,2') */", "is read at one snapshot"),
    ],
)
def test_options_that_a_system_table_cannot_follow_are_refused(shop: OrdersShop, query: str, message: str) -> None:
    assert message in str(shop.refused(f"SELECT * FROM {query}"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("SELECT id FROM orders WITH ('scan.snapshot-id' = '1')", [1, 2, 3]),
        ("SELECT o.id FROM orders WITH (`scan.snapshot-id`='1', 'scan.mode'='from-snapshot') AS o", [1, 2, 3]),
        ("WITH c AS (SELECT id FROM orders WITH ('scan.snapshot-id' = '1')) SELECT id FROM c", [1, 2, 3]),
        ("SELECT id FROM paimon_incremental_query('orders', 1, 2)", [4]),
        ("SELECT q.id FROM paimon_incremental_query('shop.orders', '1', '2') q", [4]),
        ("SELECT id FROM paimon_incremental_between_timestamp('orders', 0, 99999999999999)", [1, 2, 3, 4]),
        ("SELECT id FROM orders WHERE dt = sys.max_pt('orders')", [4]),
        ("SELECT id FROM orders WHERE dt < sys.MAX_PT( 'shop.orders' ) AND 'sys.max_pt(''x'')' <> ''", [1, 2, 3]),
        ("SELECT id FROM none WHERE dt = sys.max_pt('none')", []),
    ],
)
def test_options_and_functions_of_spark_select_rows(shop: OrdersShop, query: str, ids: list[int]) -> None:
    shop.run("INSERT INTO orders VALUES (4, 'new', 1, 'c'); CREATE TABLE none LIKE orders")
    assert sorted(row[0] for row in shop.rows(query)) == ids  # type: ignore[type-var]  # ids are numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT * FROM paimon_incremental_query('orders', '1', '2')", [("+I", 4, "new", Decimal("1.00"), "c")]),
        ("SELECT id FROM paimon_incremental_query('orders', 'second', 'third')", [(1,)]),
        # A name of a tag is a tag, although there is a snapshot with this number.
        ("SELECT id FROM paimon_incremental_query('orders', '20261130', '3')", [(1,), (4,)]),
        ("SELECT q.id FROM paimon_incremental_to_auto_tag('shop.orders', '20261202') AS q", [(1,)]),
        ("SELECT id FROM paimon_incremental_to_auto_tag('orders', '20261130')", []),
        ("SELECT id FROM paimon_incremental_to_auto_tag('orders', '20261203')", []),
        ("SELECT id FROM orders /*+ OPTIONS('incremental-to-auto-tag' = '20261202') */", [(1,)]),
        (
            "SELECT rowkind, id FROM paimon_incremental_query('`shop`.`orders$audit_log`', 2, 3) ORDER BY rowkind",
            [("+U", 1), ("-D", 2)],
        ),
        (
            "WITH c AS (SELECT * FROM paimon_incremental_query('orders', 2, 3)) "
            "SELECT c.id, o.status FROM c JOIN orders o ON o.id = c.id WHERE c.rowkind = '+I'",
            [(1, "paid")],
        ),
        ("SELECT id FROM paimon_incremental_between_timestamp('orders', '2020-01-01', '2020-01-02 00:00:00')", []),
    ],
)
def test_functions_for_changes_read_as_in_paimon(shop: OrdersShop, query: str, rows: list[tuple[object, ...]]) -> None:
    shop.run(
        "ALTER TABLE orders SET ('tag.period-formatter' = 'without_dashes');"
        "INSERT INTO orders VALUES (4, 'new', 1, 'c');"
        "MERGE INTO orders t USING (SELECT 1 AS id, 'paid' AS status UNION ALL SELECT 2, 'gone') AS s "
        "ON t.id = s.id AND t.dt = 'a' "
        "WHEN MATCHED AND s.status = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET status = s.status;"
        "CALL sys.create_tag('shop.orders', '20261130', 1); CALL sys.create_tag('shop.orders', 'second', 2);"
        "CALL sys.create_tag('shop.orders', '20261201', 2); CALL sys.create_tag('shop.orders', 'third', 3);"
        "CALL sys.create_tag('shop.orders', '20261202', 3); CALL sys.create_tag('shop.orders', '3', 3);"
    )
    assert sorted(shop.rows(query), key=repr) == rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("query('orders', 1)", "the arguments of paimon_incremental_query are not understood"),
        ("query('orders', 1, 2, 3)", "paimon_incremental_query('TABLE', 'START', 'END')"),
        ("query('orders', 1; 2)", "not understood"),
        ("query(orders, 0, 1)", "not understood"),
        ("query('orders', '', 1)", "not understood"),
        ("query('or ders', 0, 1)", "not understood"),
        ("query('nothing', 0, 1)", "there is no table nothing"),
        ("query('orders', 'a', 'b')", "'a' is neither a snapshot id nor a tag"),
        ("query('orders', 0, 99)", "does not exist"),
        ("between_timestamp('orders', 'then', 'now')", "'then' is not a point in time"),
        ("to_auto_tag('orders')", "paimon_incremental_to_auto_tag('TABLE', 'TAG')"),
        ("to_auto_tag('orders', 'monday')", "'monday' is not the name of an automatic tag"),
    ],
)
def test_wrong_calls_of_functions_for_changes_are_refused(shop: OrdersShop, call: str, message: str) -> None:
    error = shop.refused(f"SELECT 1;\n  SELECT * FROM paimon_incremental_{call}")
    assert message in str(error)
    assert (error.facts["line"], error.facts["column"]) == (2, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM STREAM orders", "SET 'execution.runtime-mode' = 'streaming'"),
        ("SELECT * FROM orders CHANGES FROM VERSION 1 TO VERSION 2", "incremental-between"),
        ("SELECT sys.max_pt('nowhere')", "there is no table nowhere"),
        ("SELECT sys.max_pt('flat')", "needs a table with partitions"),
    ],
)
def test_forms_that_are_not_supported_have_a_hint(shop: OrdersShop, query: str, message: str) -> None:
    shop.run("CREATE TABLE flat (id INT)")
    error = shop.refused(query)
    assert message in str(error)
    assert error.facts["line"] == 1


@pytest.mark.parametrize(
    ("query", "column", "hint"),
    [
        ("SELECT 1 FROM orderz o", 15, "did you mean shop.orders?"),
        ("SELECT 1 FROM orders a JOIN `shop`.`order` b ON true", 29, "did you mean shop.orders?"),
        ("INSERT INTO orders SELECT * FROM nothing", 34, "choices are shop.orders"),
    ],
)
def test_a_table_that_does_not_exist_is_named_at_its_place(
    shop: OrdersShop, query: str, column: int, hint: str
) -> None:
    error = shop.refused(f"SELECT 1;\n{query}")
    assert (error.facts["line"], error.facts["column"]) == (2, column)
    assert hint in (error.hint or "")


def test_a_column_that_a_table_lacks_is_named_at_its_place(shop: OrdersShop) -> None:
    error = shop.refused("SELECT 1 FROM orders a JOIN orders b ON a.id = b.nothing")
    assert 'table "b" does not have a column named "nothing"' in str(error)
    assert (error.facts["line"], error.facts["column"]) == (1, 50)
    quoted = shop.refused('SELECT id, "new" FROM orders')
    assert (quoted.facts["line"], quoted.facts["column"]) == (1, 12)
