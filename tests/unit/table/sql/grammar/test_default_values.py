"""DEFAULT as a value is the default of its column, or null if it has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table.sql.grammar.default_values import with_default_values
from penstock.table.sql.interpreter import Interpreter
from tests.invariants import check_invariants

TABLES = """
CREATE DATABASE shop; USE shop;
CREATE TABLE keyed (id INT, status STRING DEFAULT 'new', tags ARRAY<STRING>, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('bucket' = '1');
CREATE TABLE log (id INT, status STRING DEFAULT 'new', tags ARRAY<STRING>);
CREATE TABLE filled (id INT, status STRING DEFAULT 'new', tags ARRAY<STRING>, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('bucket' = '1', 'merge-engine' = 'partial-update');
"""
Row = tuple[object, ...]


@pytest.fixture
def interpreter(tmp_path: Path) -> Iterator[Interpreter]:
    catalog = penstock.Catalog(tmp_path / "warehouse", {"local.sync": "false"})
    with Interpreter(catalog) as opened:
        list(opened.run(TABLES))
        yield opened
        for name in catalog.tables("shop"):
            check_invariants(catalog.table(f"shop.{name}"))


def rows(interpreter: Interpreter, table: str) -> list[Row]:
    *_, result = interpreter.run(f"SELECT * FROM {table} ORDER BY id")
    return [tuple(row.values()) for row in result.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("table", ["keyed", "log", "filled"])
def test_inserted_values(interpreter: Interpreter, table: str) -> None:
    list(interpreter.run(f"INSERT INTO {table} VALUES (1, DEFAULT, DEFAULT), (2, 'paid', ['x']), (3, default, NULL)"))
    list(interpreter.run(f"INSERT INTO {table} (status, id) VALUES (\n/* one */ Default -- two\n, 4)"))
    assert rows(interpreter, table) == [(1, "new", None), (2, "paid", ["x"]), (3, "new", None), (4, "new", None)]


@pytest.mark.slow
def test_a_value_becomes_the_default_where_null_keeps_the_old_one(interpreter: Interpreter) -> None:
    list(interpreter.run("INSERT INTO filled VALUES (1, 'paid', ['x']), (2, 'paid', ['y'])"))
    list(interpreter.run("UPDATE filled SET status = DEFAULT WHERE id = 1"))
    assert rows(interpreter, "filled") == [(1, "new", ["x"]), (2, "paid", ["y"])]
    list(
        interpreter.run(
            "MERGE INTO filled t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET status = DEFAULT"
        )
    )
    assert rows(interpreter, "filled") == [(1, "new", ["x"]), (2, "new", ["y"])]
    with pytest.raises(PenstockError, match="'tags' cannot be set to null"):
        list(interpreter.run("UPDATE filled SET tags = DEFAULT WHERE id = 1"))


@pytest.mark.slow
@pytest.mark.parametrize("table", ["keyed", "log"])
def test_updated_values(interpreter: Interpreter, table: str) -> None:
    list(interpreter.run(f"INSERT INTO {table} VALUES (1, 'paid', ['x']), (2, 'paid', ['y'])"))
    list(interpreter.run(f"UPDATE {table} SET status = DEFAULT, tags = default WHERE id = 1"))
    assert rows(interpreter, table) == [(1, "new", None), (2, "paid", ["y"])]


@pytest.mark.slow
@pytest.mark.parametrize("table", ["keyed", "log"])
def test_merged_values(interpreter: Interpreter, table: str) -> None:
    list(interpreter.run(f"INSERT INTO {table} VALUES (1, 'paid', ['x'])"))
    list(
        interpreter.run(
            f"MERGE INTO {table} t USING (SELECT unnest([1, 2, 3]) AS id) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET status = DEFAULT "
            "WHEN NOT MATCHED AND s.id = 2 THEN INSERT VALUES (s.id, DEFAULT, DEFAULT) "
            "WHEN NOT MATCHED THEN INSERT (id, status) VALUES (s.id, DEFAULT)"
        )
    )
    assert rows(interpreter, table) == [(1, "new", ["x"]), (2, "new", None), (3, "new", None)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO log VALUES (1, upper(DEFAULT), NULL)",
        "INSERT INTO log VALUES (1, DEFAULT || 'x', NULL)",
        "INSERT INTO log SELECT 1, DEFAULT, NULL",
        "UPDATE log SET status = DEFAULT || 'x'",
    ],
)
def test_a_part_of_an_expression_is_no_default(interpreter: Interpreter, statement: str) -> None:
    with pytest.raises(PenstockError, match="DEFAULT"):
        list(interpreter.run(statement))
    assert rows(interpreter, "log") == []


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("VALUES (DEFAULT)", "VALUES (NULL   )"),
        ("VALUES (a, DEFAULT ), ( DEFAULT,'DEFAULT')", "VALUES (a, NULL    ), ( NULL   ,'DEFAULT')"),
        (
            'VALUES ("default", f(DEFAULT), [DEFAULT], (DEFAULT))',
            'VALUES ("default", f(DEFAULT), [DEFAULT], (DEFAULT))',
        ),
        ("VALUES (1) ORDER BY DEFAULT", "VALUES (1) ORDER BY DEFAULT"),
        ("VALUES (DEFAULT", "VALUES (DEFAULT"),
    ],
)
def test_places_in_the_text_stay(written: str, read: str) -> None:
    assert with_default_values(written) == read
