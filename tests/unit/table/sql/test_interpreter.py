"""Statements of SQL on a warehouse: their rows, what they leave, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError, PenstockError
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.queries.session import Session
from tests.invariants import check_invariants
from tests.locked_catalog import install

ORDERS = """
CREATE DATABASE shop;
USE shop;
CREATE TABLE orders (
    id INT, status STRING COMMENT 'how far', amount DECIMAL(10, 2) DEFAULT 1.50, dt STRING,
    PRIMARY KEY (id, dt) NOT ENFORCED
) PARTITIONED BY (dt) WITH ('bucket' = '2');
INSERT INTO orders VALUES (1, 'new', 3.1, 'a'), (2, 'new', null, 'a'), (3, 'paid', 7, 'b');
"""


class Shop:
    """A warehouse with a table of orders."""

    def __init__(self, folder: Path) -> None:
        self.catalog = penstock.Catalog(folder, {"local.sync": "false"})
        self.interpreter = Interpreter(self.catalog)
        self.run(ORDERS)

    def run(self, script: str) -> pa.Table:
        return list(self.interpreter.run(script))[-1]

    def rows(self, query: str = "SELECT * FROM orders ORDER BY id") -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in self.run(query).to_pylist()]

    def refused(self, script: str) -> PenstockError:
        before = self.state()
        with pytest.raises(PenstockError) as caught:
            self.run(script)
        assert self.state() == before
        return caught.value

    def state(self) -> dict[str, object]:
        names = [f"{item}.{table}" for item in self.catalog.databases() for table in self.catalog.tables(item)]
        tables = {name: self.catalog.table(name) for name in names}
        return {
            name: (item.schema_id, item.latest_snapshot and item.latest_snapshot.id) for name, item in tables.items()
        }


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "warehouse")
    with shop.interpreter:
        yield shop
        for name in shop.state():
            check_invariants(shop.catalog.table(name))


@pytest.mark.slow
def test_rows_are_inserted_with_defaults_and_types_of_the_table(shop: Shop) -> None:
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
def test_a_refused_statement_changes_nothing_and_names_its_position(shop: Shop, script: str, message: str) -> None:
    error = shop.refused(f"SELECT 1;\n  {script}")
    assert message in str(error)
    assert error.facts["line"] == 2


@pytest.mark.slow
def test_an_error_of_the_engine_has_its_position_in_the_statement(shop: Shop) -> None:
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
def test_a_statement_that_fails_half_way_leaves_no_file(shop: Shop, statement: str) -> None:
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
def test_an_overwrite_replaces_written_partitions_one_partition_or_the_table(shop: Shop) -> None:
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
def test_rows_are_updated_by_one_commit(shop: Shop) -> None:
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
def test_the_changelog_of_an_update_contains_the_old_row(shop: Shop) -> None:
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
def test_rows_are_deleted(shop: Shop, where: str, left: list[int]) -> None:
    result = shop.run(f"DELETE FROM orders WHERE {where}").to_pylist()[0]
    assert result["deleted"] == 3 - len(left)
    assert [row[0] for row in shop.rows()] == left


@pytest.mark.slow
def test_a_delete_without_condition_empties_the_table(shop: Shop) -> None:
    assert shop.run("DELETE FROM orders").to_pylist()[0]["deleted"] == 3
    assert shop.rows() == []
    shop.run("INSERT INTO orders VALUES (1, 'x', 1, 'b'); TRUNCATE TABLE orders")
    assert shop.rows() == []


@pytest.mark.slow
def test_tables_without_keys_are_deleted_from(shop: Shop) -> None:
    shop.run("CREATE TABLE log (a INT, b STRING); INSERT INTO log VALUES (1, 'x'), (2, 'y'), (2, 'y')")
    shop.run("DELETE FROM log AS l WHERE l.a = 1")
    assert shop.rows("SELECT * FROM log") == [(2, "y"), (2, "y")]
    result = shop.run("DELETE FROM log WHERE a IN (SELECT id FROM orders)").to_pylist()[0]
    assert result["deleted"] == 2
    assert shop.rows("SELECT * FROM log") == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["aggregation", "first-row"])
def test_merge_engines_that_do_not_replace_values_refuse_updates(shop: Shop, engine: str) -> None:
    shop.run(f"CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('merge-engine' = '{engine}')")
    assert engine in str(shop.refused("UPDATE t SET v = 1"))


@pytest.mark.slow
def test_a_table_with_kinds_in_a_column_refuses_updates(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, k STRING) WITH ('rowkind.field' = 'k')")
    assert "the kind of a row" in str(shop.refused("UPDATE t SET k = '+I'"))


@pytest.mark.slow
def test_partial_updates_cannot_set_null(shop: Shop) -> None:
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
    shop: Shop, order: str, seq: str, refused: bool
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
def test_changes_are_made_to_the_newest_rows_only(shop: Shop, option: str, value: str, statement: str) -> None:
    shop.run("CALL sys.create_tag('orders', 't'); CALL sys.create_branch('orders', 'b', 't')")
    shop.run(f"INSERT INTO orders VALUES (1, 'second', 1, 'a'); ALTER TABLE orders SET ('{option}' = '{value}')")
    assert option in str(shop.refused(statement))
    shop.run(f"ALTER TABLE orders RESET ('{option}'); {statement}")


@pytest.mark.slow
def test_texts_in_double_quotes_are_explained(shop: Shop) -> None:
    assert "texts are in single quotes" in str(shop.refused('SELECT * FROM orders WHERE status = "new"'))


@pytest.mark.slow
def test_a_merge_runs_the_first_clause_that_applies(shop: Shop) -> None:
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
def test_a_merge_with_stars_copies_columns_by_name(shop: Shop) -> None:
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
def test_a_target_row_is_changed_by_one_source_row(shop: Shop) -> None:
    twice = "USING (SELECT 3 AS id UNION ALL SELECT 3) s ON orders.id = s.id"
    error = shop.refused(f"MERGE INTO orders {twice} WHEN MATCHED THEN UPDATE SET status = 'q'")
    assert "several source rows would change one row" in str(error)
    shop.run(f"MERGE INTO orders {twice} WHEN MATCHED THEN DELETE")
    assert [row[0] for row in shop.rows()] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE orders SET amount = amount + 1",
        "DELETE FROM orders WHERE amount > 3",
        "MERGE INTO orders o USING orders s ON o.id = s.id WHEN MATCHED THEN UPDATE SET amount = o.amount + 1",
    ],
)
def test_rows_of_another_job_are_never_lost(shop: Shop, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another job changes a row between the beginning of a statement and the reading of its rows."""
    rows, others = Session.prepared, [True]

    def prepared(self: Session, sql: str) -> str:
        text = rows(self, sql)
        if others and "orders" in sql:
            others.clear()
            penstock.sql("INSERT INTO shop.orders VALUES (1, 'other', 100, 'a')", shop.catalog.warehouse)
        return text

    monkeypatch.setattr(Session, "prepared", prepared)
    with pytest.raises(CommitConflict):
        shop.run(statement)
    assert shop.rows("SELECT status, amount FROM orders WHERE id = 1") == [("other", Decimal(100))]
    shop.run(statement)


def test_a_table_is_created_from_a_query_or_like_another(shop: Shop) -> None:
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


def test_describe_extended_shows_what_the_table_has_beside_columns(shop: Shop) -> None:
    shop.run("ALTER TABLE orders SET COMMENT 'all of them'")
    columns = shop.rows("DESCRIBE orders")
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
    shop.run("CREATE TABLE bare (a INT)")
    assert [row[0] for row in shop.rows("DESCRIBE EXTENDED bare")][-2:] == ["Name", "Location"]
    assert shop.rows("DESCRIBE EXTENDED `orders$snapshots`") == shop.rows("DESCRIBE `orders$snapshots`")


@pytest.mark.slow
def test_a_table_is_altered_in_one_version(shop: Shop) -> None:
    shop.run("ALTER TABLE orders ADD (a INT AFTER id, b STRING COMMENT 'x')")
    assert shop.catalog.table("shop.orders").schema_id == 1
    shop.run("ALTER TABLE orders MODIFY a BIGINT COMMENT 'wide' AFTER b; ALTER TABLE orders RENAME b TO c")
    shop.run(
        "ALTER TABLE orders ALTER COLUMN c SET DEFAULT 'd'; ALTER TABLE orders SET ('snapshot.num-retained.max' = '99')"
    )
    described = shop.rows("DESCRIBE orders")
    assert [row[0] for row in described] == ["id", "status", "amount", "dt", "c", "a"]
    assert described[-1] == ("a", "BIGINT", True, "", "wide")
    shop.run("INSERT INTO orders (id, dt) VALUES (9, 'a')")
    assert shop.rows("SELECT a, c FROM orders WHERE id IN (1, 9) ORDER BY id") == [(None, None), (None, "d")]
    shop.run("ALTER TABLE orders DROP COLUMNS (a, c); ALTER TABLE orders RESET ('snapshot.num-retained.max')")
    shop.run("ALTER TABLE orders RENAME TO sales; ALTER TABLE IF EXISTS nowhere DROP COLUMN x")
    assert shop.rows("SHOW TABLES") == [("shop", "sales")]
    shop.run("ALTER TABLE sales DROP PARTITION (dt = 'a')")
    assert shop.rows("SELECT id FROM sales") == [(3,)]


def test_listings_show_existing_objects(shop: Shop) -> None:
    assert shop.rows("SHOW DATABASES") == [("shop",)]
    assert shop.rows("SHOW TABLES LIKE 'x*|ord%'") == [("shop", "orders")]
    assert shop.rows("SHOW PARTITIONS orders") == [("dt=a",), ("dt=b",)]
    assert shop.rows("SHOW COLUMNS IN orders") == [("id",), ("status",), ("amount",), ("dt",)]
    assert shop.rows("SHOW TBLPROPERTIES orders") == [("bucket", "2"), ("primary-key", "id,dt")]
    assert ("compact",) in shop.rows("SHOW PROCEDURES")
    [[text]] = shop.rows("SHOW CREATE TABLE orders")
    before = shop.catalog.table("shop.orders").definition
    shop.run(f"DROP TABLE orders; {text}")
    after = shop.catalog.table("shop.orders").definition
    assert (after.fields, after.options, after.primary_keys) == (before.fields, before.options, before.primary_keys)


@pytest.mark.slow
def test_views_read_the_newest_snapshot_of_each_statement(shop: Shop) -> None:
    shop.run("CREATE TEMPORARY VIEW v AS SELECT id FROM orders; INSERT INTO orders VALUES (4, 'x', 1, 'b')")
    assert shop.rows("SELECT count(*) FROM v") == [(4,)]
    shop.run("DROP VIEW v")
    assert "v" in str(shop.refused("SELECT * FROM v"))


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
def test_a_cte_name_hides_a_table(shop: Shop, query: str, ids: list[int]) -> None:
    assert [row[0] for row in shop.rows(query)] == ids


@pytest.mark.slow
def test_times_are_cut_to_the_precision_of_the_column(shop: Shop) -> None:
    shop.run("CREATE TABLE times (a TIMESTAMP_LTZ(3), b TIMESTAMP_LTZ(0), c TIMESTAMP(3), d TIMESTAMP(0), e TIME(3))")
    at = "'2026-01-31 12:00:00.123456'"
    shop.run(f"INSERT INTO times VALUES ({at}, TIMESTAMP {at}, {at}, {at}, '12:00:00.123')")
    query = "SELECT epoch_us(a), epoch_us(b), epoch_us(c), epoch_us(d), CAST(e AS VARCHAR) FROM times"
    second = 1769860800_000_000
    assert shop.rows(query) == [(second + 123_000, second, second + 123_000, second, "12:00:00.123")]


def test_one_statement_reads_one_snapshot(shop: Shop) -> None:
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
def test_older_snapshots_and_system_tables_are_read(shop: Shop, query: str, count: int) -> None:
    shop.run("CALL sys.create_tag(table => 'shop.orders', tag => 'first'); INSERT INTO orders VALUES (4, 'x', 1, 'b')")
    assert shop.rows(f"SELECT count(*) FROM {query}") == [(count,)]


@pytest.mark.slow
def test_procedures_call_operations_of_the_library(shop: Shop) -> None:
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


def test_databases_are_created_and_dropped_with_their_tables(shop: Shop) -> None:
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


def test_options_of_other_engines_are_reported_as_without_effect(shop: Shop) -> None:
    for statement in ("SET 'parallelism.default' = '2'", "RESET 'parallelism.default'"):
        assert shop.rows(statement) == [("parallelism.default has no effect here",)]
    assert "'runtime-mode' is not supported" in str(shop.refused("RESET 'runtime-mode'"))
    assert shop.rows("SET 'execution.runtime-mode' = 'batch'; RESET") == [("OK",)]


def test_sql_returns_the_rows_of_the_last_statement(tmp_path: Path) -> None:
    found = penstock.sql("CREATE DATABASE d; CREATE TABLE d.t (a INT); SELECT 1 AS one", warehouse=tmp_path)
    assert found.to_pylist() == [{"one": 1}]
    assert penstock.sql("SHOW TABLES", tmp_path, database="d").to_pylist() == [{"database": "d", "table": "t"}]
    with pytest.raises(ConfigError, match="contains no statement"):
        penstock.sql(" -- nothing", tmp_path)


def test_system_tables_of_a_snapshot_travel_in_time(shop: Shop) -> None:
    shop.run("UPDATE orders SET status = 'sent'; CALL sys.create_tag('shop.orders', 'first', 1)")
    hint = "/*+ OPTIONS('scan.snapshot-id' = '1') */"
    assert shop.rows(f"SELECT count(*) FROM orders$files {hint}") == [(2,)]
    assert shop.rows("SELECT count(*) FROM orders$files") == [(4,)]
    assert shop.rows("SELECT count(*) FROM orders$files VERSION AS OF 'first'") == [(2,)]
    old = shop.rows("SELECT rowkind, id, status FROM orders$audit_log FOR VERSION AS OF 1 ORDER BY id")
    assert old == [("+I", 1, "new"), ("+I", 2, "new"), ("+I", 3, "paid")]
    assert shop.rows(f"SELECT sum(record_count) FROM orders$partitions {hint}") == [(3,)]
    assert shop.rows(f"SELECT count(*) FROM orders$manifests {hint}") == [(1,)]
    for system in ("$buckets", "$ro", "$binlog", "$table_indexes"):
        shop.rows(f"SELECT * FROM orders{system} {hint}")


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
def test_options_that_a_system_table_cannot_follow_are_refused(shop: Shop, query: str, message: str) -> None:
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
def test_options_and_functions_of_spark_select_rows(shop: Shop, query: str, ids: list[int]) -> None:
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
def test_functions_for_changes_read_as_in_paimon(shop: Shop, query: str, rows: list[tuple[object, ...]]) -> None:
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
def test_wrong_calls_of_functions_for_changes_are_refused(shop: Shop, call: str, message: str) -> None:
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
def test_forms_that_are_not_supported_have_a_hint(shop: Shop, query: str, message: str) -> None:
    shop.run("CREATE TABLE flat (id INT)")
    error = shop.refused(query)
    assert message in str(error)
    assert error.facts["line"] == 1
