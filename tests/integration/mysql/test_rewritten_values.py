"""Statements that change values of rows without events of rows: the tables have the new values all the same."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

# The column, values of it, and statements after which the values are others.
REWRITES = {
    "decimal": ("DECIMAL(10,3)", "1.256, 2.5", "MODIFY a DECIMAL(10,1)"),
    "decimal digits": ("DECIMAL(10,2)", "123456.25, 2.5", "MODIFY a DECIMAL(4,2)"),
    "varchar": ("VARCHAR(20)", "'a long text', 'b'", "MODIFY a VARCHAR(4)"),
    "char": ("VARCHAR(9)", "'ends  ', 'b'", "MODIFY a CHAR(9)"),
    "text": ("TEXT", f"'{'x' * 300}', 'b'", "MODIFY a TINYTEXT"),
    "int": ("INT", "70000, 2", "MODIFY a SMALLINT"),
    "unsigned": ("INT", "-5, 2", "MODIFY a SMALLINT UNSIGNED"),
    "sign": ("DECIMAL(9,2)", "-5.5, 2", "MODIFY a DECIMAL(9,2) UNSIGNED"),
    "double": ("DOUBLE", "1.23456789012, 2", "MODIFY a FLOAT"),
    "enum": ("ENUM('a','b','c')", "'a', 'b'", "MODIFY a ENUM('b','x')"),
    "set": ("SET('a','b')", "'a,b', 'b'", "MODIFY a SET('b','a')"),
    "charset": ("VARCHAR(9) CHARACTER SET utf8mb4", "'smile 😀', 'b'", "MODIFY a VARCHAR(9) CHARACTER SET latin1"),
    "convert": ("VARCHAR(9) CHARACTER SET utf8mb4", "'čeština', 'b'", "CONVERT TO CHARACTER SET latin1"),
    "datetime": ("DATETIME(6)", "'2024-01-01 00:00:00.75', '2024-01-02'", "MODIFY a DATETIME"),
    "time": ("TIME(3)", "'01:00:00.75', '02:00:00'", "MODIFY a TIME"),
    "not null": ("INT", "NULL, 2", "MODIFY a INT NOT NULL"),
    "not null text": ("VARCHAR(9)", "NULL, 'b'", "CHANGE a a VARCHAR(9) NOT NULL"),
    "binary": ("BINARY(3)", "'abc', 'b'", "MODIFY a BINARY(5)"),
    "another column": ("INT", "1, 2", "DROP COLUMN a, ADD a INT DEFAULT 7"),
    "another column of nulls": ("INT", "1, 2", "CHANGE a z INT, ADD a INT"),
}
KEEPS = {
    "longer": ("VARCHAR(20)", "'a', 'b'", "MODIFY a VARCHAR(40)"),
    "text": ("VARCHAR(20)", "'a', 'b'", "MODIFY a TEXT"),
    "int": ("INT", "1, 2", "MODIFY a BIGINT"),
    "decimal": ("DECIMAL(10,2)", "1, 2", "MODIFY a DECIMAL(14,4)"),
    "enum": ("ENUM('a','b')", "'a', 'b'", "MODIFY a ENUM('b','c','a')"),
    "set": ("SET('a','b')", "'a,b', 'b'", "MODIFY a SET('a','b','c')"),
    "null": ("INT NOT NULL", "1, 2", "MODIFY a INT"),
    "default": ("INT", "1, 2", "MODIFY a INT DEFAULT 7 COMMENT 'seven'"),
    "place": ("INT", "1, 2", "MODIFY a INT FIRST"),
    "convert": ("VARCHAR(9) CHARACTER SET latin1", "'é', 'b'", "CONVERT TO CHARACTER SET utf8mb4"),
    "datetime": ("DATETIME(3)", "'2024-01-01 00:00:00.75', '2024-01-02'", "MODIFY a DATETIME(6)"),
    "default charset": ("VARCHAR(9) CHARACTER SET utf8mb4", "'😀', 'b'", "DEFAULT CHARACTER SET latin1"),
    "engine": ("INT", "1, 2", "FORCE"),
}


def begin(server: Playground, tmp_path: Path, column: str, values: str) -> Sync:
    first, second = values.split(", ")
    server.run(f"CREATE TABLE t (id INT PRIMARY KEY, a {column}, v INT)")
    server.run(f"INSERT INTO t VALUES (1, {first}, 1), (2, {second}, 2)")
    sync = Sync(server, tmp_path)
    sync.run()
    return sync


def settle(sync: Sync) -> None:
    """Run until nothing is left: a table is read again by the batches after the one that finds the need."""
    for _ in range(3):
        sync.run()
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []


@pytest.mark.parametrize("case", REWRITES)
def test_older_rows_have_the_values_that_a_statement_made(server: Playground, tmp_path: Path, case: str) -> None:
    column, values, change = REWRITES[case]
    sync = begin(server, tmp_path, column, values)
    before = [row["a"] for row in sync.rows("t")]
    server.run(f"ALTER TABLE t {change}", "UPDATE t SET v = 9 WHERE id = 2")
    settle(sync)
    assert [row["a"] for row in sync.rows("t")] != before


@pytest.mark.parametrize("case", KEEPS)
def test_a_table_whose_values_stay_is_not_read_again(
    server: Playground, tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    sync = begin(server, tmp_path, *KEEPS[case][:2])
    server.run(f"ALTER TABLE t {KEEPS[case][2]}", "UPDATE t SET v = 9 WHERE id = 2")
    with caplog.at_level(logging.INFO):
        settle(sync)
    assert "event=tables_read_again" not in caplog.text


def test_values_of_a_key_that_a_statement_made_replace_the_rows(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, v INT)", "INSERT INTO t VALUES ('one', 1), ('second', 2)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("INSERT INTO t VALUES ('third', 3)", "ALTER TABLE t MODIFY id VARCHAR(3)")
    server.run("INSERT INTO t VALUES ('x', 4)")
    settle(sync)
    assert sync.ids("t") == ["one", "sec", "thi", "x"]


def test_a_generated_column_has_the_values_of_its_new_expression(server: Playground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path, "INT AS (id * 2) STORED", "DEFAULT, DEFAULT")
    server.run("ALTER TABLE t MODIFY a INT AS (id * 3) STORED")
    settle(sync)
    assert [row["a"] for row in sync.rows("t")] == [3, 6]


def test_values_that_a_schema_change_tool_made_are_in_the_table(server: Playground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path, "VARCHAR(20)", "'a long text', 'b'")
    server.run(
        "CREATE TABLE _t_new LIKE t",
        "ALTER TABLE _t_new MODIFY a VARCHAR(4)",
        "INSERT INTO _t_new SELECT * FROM t",
        "RENAME TABLE t TO _t_old, _t_new TO t",
        "DROP TABLE _t_old",
    )
    settle(sync)
    assert [row["a"] for row in sync.rows("t")] == ["a lo", "b"]


def test_a_statement_while_the_table_is_read_counts_too(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))", "INSERT INTO t VALUES (1, 'a long text')")
    sync = Sync(server, tmp_path, flags=("--max-batch-rows", "1"))
    changed: list[int] = []

    def change(*_: object) -> None:
        if not changed:
            changed.append(1)
            server.run("UPDATE t SET a = 'another text'", "ALTER TABLE t MODIFY a VARCHAR(4)")

    sync.run(on_batch=change)
    settle(sync)


def test_a_strict_session_that_only_forbids_nulls_reads_nothing_again(
    server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sync = begin(server, tmp_path, "INT", "1, 2")
    server.run("SET sql_mode = 'STRICT_ALL_TABLES'", "ALTER TABLE t MODIFY a SMALLINT NOT NULL", "SET sql_mode = ''")
    with caplog.at_level(logging.INFO):
        settle(sync)
    assert "event=tables_read_again" not in caplog.text


def test_texts_with_the_digits_of_their_type_are_read_again(server: Playground, tmp_path: Path) -> None:
    kinds = ("DECIMAL(6,2)", "DATETIME(3)", "TIME", "FLOAT")
    wider = ("DECIMAL(10,4)", "DATETIME(6)", "TIME(6)", "DOUBLE")
    row = "(1.5, 1.5, '2026-01-02 03:04:05.5', '01:02:03', 1.1)"
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds))
    server.run(f"CREATE TABLE t (id DECIMAL(6,2) PRIMARY KEY, {columns})", f"INSERT INTO t VALUES {row}")
    server.run(f"CREATE TABLE u (id INT PRIMARY KEY, {columns})", f"INSERT INTO u VALUES {row.replace('1.5', '1', 1)}")
    sync = Sync(server, tmp_path, flags=("--type-mapping", "to-string"))
    sync.run()
    for number, kind in enumerate(wider):
        server.run(f"ALTER TABLE u MODIFY c{number} {kind}")
    server.run("ALTER TABLE t MODIFY id DECIMAL(10,4)", "UPDATE t SET c3 = 2", "INSERT INTO u (id) VALUES (2)")
    sync.run()
    sync.run()
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    assert sync.ids("t") == ["1.5000"]
