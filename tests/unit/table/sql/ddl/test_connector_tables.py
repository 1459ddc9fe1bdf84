"""Temporary tables of Flink's connectors: files and made-up rows are read, others are refused with an alternative."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table.sql.interpreter import Interpreter

ORDERS = "CREATE TABLE orders (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Interpreter]:
    catalog = penstock.Catalog(tmp_path / "lake", {"local.sync": "false"})
    catalog.create_database("shop")
    with Interpreter(catalog, "shop") as made:
        list(made.run(ORDERS))
        yield made


def rows(shop: Interpreter, script: str) -> list[dict[str, object]]:
    (*_, last) = shop.run(script)
    found: list[dict[str, object]] = last.to_pylist()
    return found


def refused(shop: Interpreter, script: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        list(shop.run(script))
    return caught.value


def test_files_are_the_source_of_an_insert(shop: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("1;'a;b'\n2;\n")
    (tmp_path / "in" / "2.csv").write_text("3;NA\n")
    script = f"""CREATE TEMPORARY TABLE files (id INT, name STRING) WITH ('connector' = 'filesystem',
        'path' = 'file://{tmp_path}/in', 'format' = 'csv', 'csv.field-delimiter' = ';', 'csv.quote-character' = '''',
        'csv.null-literal' = 'NA'); INSERT INTO orders SELECT id, name FROM files; SELECT * FROM orders ORDER BY id"""
    assert rows(shop, script) == [
        {"id": 1, "name": "a;b"},
        {"id": 2, "name": ""},
        {"id": 3, "name": None},
    ]
    assert rows(shop, "DROP TABLE files; SHOW VIEWS") == []


def test_files_of_json_and_parquet_have_the_columns_of_the_statement(shop: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "at": {"city": "Bern", "tags": ["x"]}, "other": 5}\n{"id": 2}\n')
    pq.write_table(pa.table({"id": [7], "price": ["1.50"], "more": [0]}), tmp_path / "a.parquet")
    script = f"""CREATE TEMPORARY TABLE j (id BIGINT, at ROW<city STRING, tags ARRAY<STRING>>) WITH (
        'connector' = 'filesystem', 'path' = '{tmp_path}/a.json', 'format' = 'json');
        CREATE TEMPORARY TABLE p (id BIGINT, price DECIMAL(5, 2)) WITH (
        'connector' = 'filesystem', 'path' = '{tmp_path}/a.parquet', 'format' = 'parquet')"""
    rows(shop, script)
    assert rows(shop, "SELECT * FROM j ORDER BY id") == [
        {"id": 1, "at": {"city": "Bern", "tags": ["x"]}},
        {"id": 2, "at": None},
    ]
    assert [str(row["price"]) for row in rows(shop, "SELECT price + 1 AS price FROM p")] == ["2.50"]


def test_files_that_are_not_finished_are_not_read(shop: Interpreter, tmp_path: Path) -> None:
    for name in ("1", "[a]/2", "dt=5/3", "_temporary/0/4", ".staging/5", ".part-6", "_7"):
        (tmp_path / "[in]" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "[in]" / name).write_text(f"{name[-1]},mon\n")
    script = f"""CREATE TEMPORARY TABLE files (id INT, dt STRING) WITH ('connector' = 'filesystem',
        'path' = '{tmp_path}/[in]', 'format' = 'csv'); SELECT * FROM files ORDER BY id"""
    assert rows(shop, script) == [{"id": number, "dt": "mon"} for number in (1, 2, 3)]
    (tmp_path / "[in]" / "8").write_text("8,mon\n")
    assert len(rows(shop, "SELECT * FROM files")) == 4


def test_an_empty_text_is_null_only_if_the_option_says_so(shop: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,\n")
    text = f"""CREATE TEMPORARY TABLE %s (id INT, name STRING) WITH ('connector' = 'filesystem',
        'path' = '{tmp_path}/a.csv', 'format' = 'csv' %s); SELECT name FROM %s"""
    assert rows(shop, text % ("plain", "", "plain")) == [{"name": ""}]
    assert rows(shop, text % ("nulls", ", 'csv.null-literal' = ''", "nulls")) == [{"name": None}]


def test_a_temporary_table_is_distinct_from_one_of_the_catalog(shop: Interpreter) -> None:
    made = "CREATE TEMPORARY TABLE %s (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')"
    assert "would hide a table of the catalog" in refused(shop, made % "orders").message
    assert "there is no temporary table orders" in refused(shop, "DROP TEMPORARY TABLE orders").message
    rows(shop, "DROP TEMPORARY TABLE IF EXISTS orders")
    rows(shop, f"{made % 'later'}; CREATE TABLE later (id INT)")
    assert "hides a table of the catalog" in refused(shop, "DROP TABLE later").message
    rows(shop, "DROP TEMPORARY TABLE later")
    assert [row["table"] for row in rows(shop, "SHOW TABLES")] == ["later", "orders"]
    assert rows(shop, "SELECT * FROM later") == []


def test_a_temporary_name_of_a_folder_is_dropped_without_the_table(shop: Interpreter, tmp_path: Path) -> None:
    path = tmp_path / "lake" / "shop.db" / "orders"
    rows(shop, f"CREATE TEMPORARY TABLE aside WITH ('connector' = 'paimon', 'path' = '{path}')")
    rows(shop, "DROP TEMPORARY TABLE aside")
    assert [row["table"] for row in rows(shop, "SHOW TABLES")] == ["orders"]


def test_made_up_rows_are_within_their_bounds(shop: Interpreter) -> None:
    script = """CREATE TEMPORARY TABLE made (id INT, amount DOUBLE, n TINYINT, name STRING, price DECIMAL(4, 2),
        flag BOOLEAN, at TIMESTAMP(3)) WITH ('connector' = 'datagen', 'rows-per-second' = '10',
        'fields.id.kind' = 'sequence', 'fields.id.start' = '5', 'fields.id.end' = '104',
        'fields.amount.min' = '1', 'fields.amount.max' = '2', 'fields.n.max' = '3', 'fields.name.length' = '40')"""
    rows(shop, script)
    found = rows(shop, "SELECT * FROM made")
    assert [row["id"] for row in found] == list(range(5, 105))
    assert all(1 <= float(str(row["amount"])) <= 2 for row in found)
    assert {row["n"] for row in found} == {0, 1, 2, 3}
    assert {len(str(row["name"])) for row in found} == {40}
    assert len({row["name"] for row in found}) == 100
    assert all(0 <= float(str(row["price"])) < 100 for row in found)
    assert {row["flag"] for row in found} == {True, False}
    assert rows(shop, "INSERT INTO orders SELECT id, name FROM made; SELECT count(*) AS n FROM orders") == [{"n": 100}]


def test_computed_columns_are_computed_by_the_query(shop: Interpreter) -> None:
    script = """CREATE TEMPORARY TABLE made (twice AS `id` * 2, id INT, at AS PROCTIME(),
        note AS 'it''s PROCTIME()', WATERMARK FOR at AS at) WITH (
        'connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '2');
        SELECT * FROM made"""
    found = rows(shop, script)
    assert [list(row) for row in found] == [["twice", "id", "at", "note"]] * 2
    assert {row["note"] for row in found} == {"it's PROCTIME()"}
    assert [(row["twice"], row["id"], row["at"] is not None) for row in found] == [(2, 1, True), (4, 2, True)]


@pytest.mark.parametrize(
    ("columns", "options", "message", "hint"),
    [
        ("id INT", "'connector' = 'kafka'", "connector 'kafka' is not supported", "penstock kafka-sync-table"),
        ("id INT", "'connector' = 'print'", "connector 'print' is not supported", "SELECT shows rows"),
        ("id INT", "'connector' = 'filesystem'", "needs a path and a format", "csv, json, parquet"),
        ("id INT", "'connector' = 'datagen'", "rows for ever", "'number-of-rows' = '1000'"),
        ("id INT", "'connector' = 'datagen', 'number-of-row' = '1'", "not an option", "number-of-rows"),
        ("id INT", "'connector' = 'datagen', 'number-of-rows' = 'x'", "'x' is not a whole number", "'100'"),
        ("id INT", "'connector' = 'datagen', 'fields.id.min' = '1;'", "'1;' is not a number", "'100'"),
        ("id INT", "'connector' = 'datagen', 'number-of-rows' = '-1'", "is below 0", "'100'"),
        (
            "id INT",
            "'connector' = 'datagen', 'number-of-rows' = '9', 'fields.id.start' = '1', 'fields.id.end' = '2'",
            "fields.id.start has no effect",
            "a sequence has",
        ),
        (
            "a STRING",
            "'connector' = 'datagen', 'number-of-rows' = '1', 'fields.a.max' = '5'",
            "fields.a.max has no effect",
            "texts 'length'",
        ),
        (
            "id INT",
            "'connector' = 'datagen', 'number-of-rows' = '1', 'fields.id.min' = '5', 'fields.id.max' = '1'",
            "fields.id.min is greater than fields.id.max",
            "exchange them",
        ),
        ("a BYTES", "'connector' = 'datagen', 'number-of-rows' = '1'", "cannot make values of the column 'a'", "texts"),
        (
            "id INT, PRIMARY KEY (id) NOT ENFORCED",
            "'connector' = 'datagen', 'number-of-rows' = '1'",
            "PRIMARY KEY has no effect",
            "leave it out",
        ),
    ],
)
def test_other_tables_are_refused_with_the_way_out(
    shop: Interpreter, columns: str, options: str, message: str, hint: str
) -> None:
    error = refused(shop, f"CREATE TEMPORARY TABLE x ({columns}) WITH ({options})")
    assert message in error.message
    assert hint in str(error.hint)
    assert rows(shop, "SHOW VIEWS") == []


def test_a_table_of_the_catalog_has_no_connector(shop: Interpreter) -> None:
    error = refused(shop, "CREATE TABLE x (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    assert "CREATE TEMPORARY TABLE makes up rows" in str(error.hint)
    error = refused(shop, "CREATE TEMPORARY TABLE shop.x (id INT) WITH ('connector' = 'datagen')")
    assert "a name without a database" in error.message
