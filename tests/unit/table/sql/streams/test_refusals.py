"""What a stream cannot do is refused with its place, and nothing is read or written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.sql.interpreter import Interpreter

pytestmark = pytest.mark.slow

TABLES = """
CREATE DATABASE shop; USE shop;
CREATE TABLE src (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('bucket' = '1', 'changelog-producer' = 'lookup');
CREATE TABLE out (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE parts (id INT, s STRUCT<a: INT>, b BOOLEAN, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
INSERT INTO src VALUES (1, 'a'), (2, 'b');
CREATE TEMPORARY VIEW w AS SELECT * FROM src;
CREATE TEMPORARY VIEW deep AS SELECT id FROM w;
CREATE TEMPORARY VIEW fixed AS SELECT 7 AS id, 'x' AS v;
"""
REFUSED = [
    ("SELECT * FROM w", "is a view, and not a table", 15),
    ("INSERT INTO out SELECT * FROM w", "is a view, and not a table", 31),
    ("SELECT * FROM deep", "is a view, and not a table", 15),
    ("SELECT id FROM src UNION ALL SELECT id FROM fixed", "is a view, and not a table", 45),
    ("SELECT * FROM src TABLESAMPLE 50%", "TABLESAMPLE is not possible", 15),
    ("SELECT * FROM src /*+ OPTIONS('nope' = '1') */", "'nope' is not a table option", 15),
    ("SELECT * FROM src /*+ OPTIONS('scan.bounded.watermark' = '1') */", "scan.bounded.watermark", 15),
    ("SELECT * FROM src /*+ OPTIONS('incremental-between' = '1,2') */", "is a range of changes", 15),
    ("INSERT INTO src SELECT * FROM src", "each commit to shop.src would be read again", 24),
]


@pytest.fixture
def interpreter(tmp_path: Path) -> Iterator[Interpreter]:
    catalog = penstock.Catalog(tmp_path / "warehouse", {"local.sync": "false"})
    with Interpreter(catalog, until_caught_up=True) as opened:
        list(opened.run(TABLES))
        list(opened.run("SET 'execution.runtime-mode' = 'streaming'"))
        yield opened
        assert catalog.table("shop.src").count() == 2
        assert len(catalog.table("shop.src").snapshots) == 2


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("{'a': 1, 'q': 2}, NULL", "the struct 's' has no field 'q'"),
        ("NULL, 5", "a number cannot be stored in the column 'b'"),
        ("NULL, v", "a text cannot be stored whole in the column 'b'"),
    ],
)
def test_values_that_a_column_would_change_are_refused(interpreter: Interpreter, values: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        list(interpreter.run(f"INSERT INTO parts SELECT id, {values} FROM src"))


@pytest.mark.parametrize(("statement", "reason", "column"), REFUSED)
def test_statements_that_are_no_streams(interpreter: Interpreter, statement: str, reason: str, column: int) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        list(interpreter.run(statement))
    assert (refused.value.facts["line"], refused.value.facts["column"]) == (1, column)
    assert refused.value.hint


def test_a_view_of_constants_is_read_once(interpreter: Interpreter) -> None:
    list(interpreter.run("INSERT INTO out SELECT * FROM fixed"))
    *_, found = interpreter.run("SET 'execution.runtime-mode' = 'batch'; SELECT * FROM out")
    assert found.to_pylist() == [{"id": 7, "v": "x"}]


def test_a_dropped_view_gives_its_name_back(interpreter: Interpreter) -> None:
    list(interpreter.run("CREATE TEMPORARY VIEW src AS SELECT 1 AS id"))
    *_, found = interpreter.run("SELECT * FROM src")
    assert found.to_pylist() == [{"id": 1}]
    list(interpreter.run("DROP VIEW src; DROP VIEW w; DROP VIEW deep"))
    *_, found = interpreter.run("SELECT id FROM src WHERE id = 2")
    assert found.to_pylist() == [{"op": "+I", "id": 2}]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SET 'pipeline.name' = ' '", "pipeline.name cannot be empty"),
        ("SET 'execution.checkpointing.interval' = 'soon'", "'soon' is not a duration"),
    ],
)
def test_options_of_jobs_are_checked_when_they_are_set(interpreter: Interpreter, statement: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        list(interpreter.run(statement))
