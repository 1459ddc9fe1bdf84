"""Columns that give older rows a value when they are added: no log shows it, and the tables have it all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

COLUMNS = (
    "a INT DEFAULT 7",
    "a VARCHAR(9) DEFAULT 'new'",
    "a DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)",
    "a INT DEFAULT (3 * 4)",
    "a DATE NOT NULL DEFAULT '2024-02-29'",
    "a INT NOT NULL",
    "a INT AS (id * 2) STORED",
)


def test_older_rows_have_the_values_of_added_columns(server: Playground, tmp_path: Path) -> None:
    # MySQL refuses to add a column whose default differs from row to row if it logs rows.
    columns = [*COLUMNS, *(["a CHAR(36) DEFAULT (uuid())"] if server.is_mariadb else [])]
    tables = [f"t{number}" for number in range(len(columns))]
    for table in tables:
        server.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    sync = Sync(server, tmp_path)
    sync.run()
    for table, column in zip(tables, columns, strict=True):
        server.run(f"ALTER TABLE {table} ADD COLUMN {column}", f"UPDATE {table} SET v = 9 WHERE id = 2")
    sync.run()
    sync.run()  # the tables are read again after the batch in which the columns appear
    wrong = [verdict for verdict in sync.verified() if not verdict.is_equal]
    assert not wrong
    assert all(row["a"] is not None for table in tables for row in sync.rows(table))


def settle(sync: Sync) -> None:
    """Run until nothing is left: a table is read again by the batches after the one that finds the need."""
    for _ in range(3):
        sync.run()
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []


@pytest.mark.parametrize("default", ["", " DEFAULT 9"])
@pytest.mark.parametrize("between", [True, False], ids=["in two batches", "in one batch"])
def test_a_column_that_was_dropped_and_added_again_has_its_new_values(
    server: Playground, tmp_path: Path, default: str, between: bool
) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t DROP COLUMN a", "INSERT INTO t VALUES (3)")
    if between:
        sync.run()
    server.run(f"ALTER TABLE t ADD COLUMN a INT{default}")
    settle(sync)
    assert {row["a"] for row in sync.rows("t")} == ({9} if default else {None})


def test_a_default_that_was_dropped_before_the_next_batch_is_in_older_rows(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t ADD COLUMN a INT DEFAULT 7", "ALTER TABLE t ALTER COLUMN a DROP DEFAULT")
    server.run("INSERT INTO t VALUES (3, 3)")
    settle(sync)
    assert [(row["id"], row["a"]) for row in sync.rows("t")] == [(1, 7), (2, 7), (3, 3)]


def test_a_column_that_another_source_table_had_first_is_filled(server: Playground, tmp_path: Path) -> None:
    for table, key in (("s1", 1), ("s2", 2)):
        server.run(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES ({key})")
    sync = Sync(server, tmp_path, "all", conf=["table-name=s[12]"])
    sync.run()
    for table, key in (("s1", 11), ("s2", 12)):
        server.run(f"ALTER TABLE {table} ADD COLUMN a INT DEFAULT {key}", f"INSERT INTO {table} (id) VALUES ({key})")
        for _ in range(3):
            sync.run()
    assert [(row["id"], row["a"]) for row in sync.rows("all")] == [(1, 11), (2, 12), (11, 11), (12, 12)]


def test_a_column_that_a_schema_change_tool_adds_is_filled(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run(
        "CREATE TABLE _t_new LIKE t",
        "ALTER TABLE _t_new ADD COLUMN a INT DEFAULT 7",
        "INSERT INTO _t_new (id) SELECT id FROM t",
        "RENAME TABLE t TO _t_old, _t_new TO t",
        "DROP TABLE _t_old",
        "INSERT INTO t VALUES (2, 2)",
    )
    settle(sync)
    assert [(row["id"], row["a"]) for row in sync.rows("t")] == [(1, 7), (2, 2)]
