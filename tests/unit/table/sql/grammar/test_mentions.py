"""Where statements name tables, how columns may be qualified by them, and the hints after them."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.sql.interpreter import Interpreter

SETUP = """
CREATE DATABASE shop;
CREATE DATABASE other;
USE shop;
CREATE TABLE visits (id INT, day STRING, pages INT);
CREATE TABLE other.visits (id INT, note STRING);
INSERT INTO visits VALUES (1, 'mon', 3), (2, 'tue', 4);
INSERT INTO other.visits VALUES (2, 'late');
INSERT INTO visits VALUES (3, 'tue', 5);
"""


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    folder: Path = tmp_path_factory.mktemp("mentions")
    made = Interpreter(penstock.Catalog(folder, {"local.sync": "false"}))
    for _ in made.run(SETUP):
        pass
    return made


def rows(interpreter: Interpreter, sql: str) -> list[tuple[object, ...]]:
    found = list(interpreter.run(sql))[-1]
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("PIVOT visits ON day USING sum(pages)", [(1, 3, None), (2, None, 4), (3, None, 5)]),
        ("SELECT mon FROM (PIVOT visits ON day USING sum(pages)) WHERE id = 1", [(3,)]),
        ("SELECT id, mon FROM visits PIVOT (sum(pages) FOR day IN ('mon', 'tue'))", [(1, 3), (2, None), (3, None)]),
        ("SELECT count(*) FROM (UNPIVOT visits ON id, pages INTO NAME n VALUE v)", [(6,)]),
        ("SELECT shop.visits.id FROM shop.visits WHERE shop.visits.pages = 3", [(1,)]),
        ("SELECT visits.id FROM shop.visits WHERE visits.pages = 3", [(1,)]),
        ("SELECT note FROM shop.visits JOIN other.visits ON shop.visits.id = other.visits.id", [("late",)]),
        ("SELECT visits.id FROM visits VERSION AS OF 1 WHERE visits.pages > 3", [(2,)]),
        ("SELECT /*+ BROADCAST(visits) */ id FROM visits /*+ OPTIONS('scan.snapshot-id' = '1') */", [(1,), (2,)]),
    ],
)
def test_a_query_finds_the_tables_that_it_names(
    interpreter: Interpreter, sql: str, expected: list[tuple[object, ...]]
) -> None:
    assert rows(interpreter, sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM visits /*+ OPTION('scan.snapshot-id' = '1') */",
        "SELECT * FROM visits AS v JOIN other.visits /*+ SCAN('scan.snapshot-id' = '1') */ AS o ON v.id = o.id",
        "INSERT INTO visits /*+ OPTION('write-only' = 'true') */ VALUES (9, 'x', 1)",
    ],
)
def test_a_hint_behind_a_table_that_is_not_known_is_refused(interpreter: Interpreter, sql: str) -> None:
    with pytest.raises(ConfigError, match="after a table is not understood") as caught:
        rows(interpreter, sql)
    assert caught.value.hint == "t /*+ OPTIONS('key' = 'value', ...) */"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM visits /*+ OPTIONS('scan.snapshot-id' = '1', 'scan.snapshot-id' = '2') */",
        "SELECT * FROM visits WITH ('scan.snapshot-id' = '1', 'scan.snapshot-id' = '2')",
        "INSERT INTO visits /*+ OPTIONS('scan.snapshot-id' = '1', 'scan.snapshot-id' = '2') */ VALUES (9, 'x', 1)",
    ],
)
def test_an_option_that_is_set_twice_is_refused(interpreter: Interpreter, sql: str) -> None:
    with pytest.raises(ConfigError, match=r"sets the option 'scan\.snapshot-id' twice"):
        rows(interpreter, sql)


def test_a_value_that_cannot_be_cast_is_no_error_of_the_text(interpreter: Interpreter) -> None:
    with pytest.raises(ConfigError, match="the statement failed: Conversion Error"):
        rows(interpreter, "INSERT INTO visits VALUES ('x', 'mon', 1)")


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("INSERT INTO visits SELECT 1, DEFAULT, 2", "DEFAULT is a whole value"),
        ("UPDATE visits SET day = upper(DEFAULT)", "DEFAULT is a whole value"),
        ("UPDATE visits SET day = o.note FROM other.visits o WHERE o.id = visits.id", "MERGE INTO t USING s"),
        ("INSERT INTO visits VALUES (1, 'a', 2) RETURNING id", "returns the number of rows"),
        ("INSERT INTO visits VALUES (1, 'a', 2) ON CONFLICT DO NOTHING", "MERGE INTO decides"),
    ],
)
def test_clauses_of_other_engines_are_refused_with_what_to_write(interpreter: Interpreter, sql: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rows(interpreter, sql)
    assert hint in (caught.value.hint or "")
