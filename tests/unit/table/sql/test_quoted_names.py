"""Names in backquotes or double quotes, with quotes and other signs in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.sql.interpreter import Interpreter


@pytest.fixture
def interpreter(tmp_path: Path) -> Iterator[Interpreter]:
    with Interpreter(penstock.Catalog(tmp_path / "warehouse", {"local.sync": "false"})) as opened:
        list(opened.run("CREATE DATABASE `d``b`; USE `d``b`"))
        yield opened


def run(interpreter: Interpreter, script: str) -> list[dict[str, Any]]:
    *_, result = interpreter.run(script)
    return result.to_pylist()  # type: ignore[no-any-return]  # Arrow has no types


@pytest.mark.slow
def test_statements_on_names_with_quotes(interpreter: Interpreter) -> None:
    run(
        interpreter,
        """
        CREATE TABLE `t``1` (`a``b` INT, `x,y` ROW<`e``f>` INT, "g""h" STRING>, "c""d" STRING, `p``q` STRING)
            PARTITIONED BY (`p``q`);
        INSERT INTO `t``1` PARTITION (`p``q` = 'm`n') (`a``b`, "c""d") VALUES (1, 'it`s'), (2, 'x');
        INSERT INTO `d``b`.`t``1` VALUES (3, NULL, 'y', 'o');
        ALTER TABLE `t``1` RENAME COLUMN `a``b` TO `k```;
        UPDATE `t``1` AS `z``z` SET "c""d" = 'new`' WHERE `z``z`.`k``` = 2;
        DELETE FROM `t``1` WHERE `k``` = 3 AND "c""d" = 'y'
        """,
    )
    rows = run(interpreter, 'SELECT `k```, "c""d" FROM `t``1` AS `a``s` WHERE `a``s`.`p``q` = \'m`n\' ORDER BY 1')
    assert rows == [{"k`": 1, 'c"d': "it`s"}, {"k`": 2, 'c"d': "new`"}]
    types = {row["column"]: row["type"] for row in run(interpreter, "DESCRIBE `t``1`")}
    assert types["x,y"] == 'ROW<`e``f>` INT, `g"h` STRING>'
    assert run(interpreter, "SHOW PARTITIONS `t``1`") == [{"partition": "p`q=m`n"}]
    run(interpreter, "CREATE TABLE `t``2` AS SELECT `k``` AS `u``v` FROM `t``1`")
    assert run(interpreter, "SELECT `u``v` FROM `t``2` VERSION AS OF 1 ORDER BY 1") == [{"u`v": 1}, {"u`v": 2}]


def test_a_shown_statement_creates_the_table_again(interpreter: Interpreter) -> None:
    run(
        interpreter,
        'CREATE TABLE `t``1` (`a``b` INT, n ROW<`e``f` INT>, "c""d" INT, PRIMARY KEY (`a``b`) NOT ENFORCED)',
    )
    [shown] = run(interpreter, "SHOW CREATE TABLE `t``1`")
    run(interpreter, "DROP TABLE `t``1`")
    run(interpreter, shown["statement"])
    assert run(interpreter, "SHOW CREATE TABLE `t``1`") == [shown]


@pytest.mark.slow
@pytest.mark.parametrize("table", ["keyed", "log"])
def test_a_backquote_in_a_text_is_no_name(interpreter: Interpreter, table: str) -> None:
    key = ", PRIMARY KEY (id) NOT ENFORCED" if table == "keyed" else ""
    run(interpreter, f"CREATE TABLE {table} (id INT, s STRING{key})")
    run(interpreter, f"INSERT INTO {table} VALUES (1, 'a`b'), (2, 'a\"b')")
    run(interpreter, f"DELETE FROM {table} WHERE s = 'a`b'")
    assert run(interpreter, f"SELECT * FROM {table}") == [{"id": 2, "s": 'a"b'}]


def test_an_empty_name_is_refused(interpreter: Interpreter) -> None:
    with pytest.raises(ConfigError, match="is not closed") as refused:
        run(interpreter, "SELECT\n  `` FROM t")
    assert (refused.value.facts["line"], refused.value.facts["column"]) == (2, 3)
