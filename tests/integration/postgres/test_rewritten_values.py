"""Statements that change values of rows without changes of rows in the log: the tables have the new values."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.integration.postgres.test_altered_tables import settle

pytestmark = pytest.mark.postgres
REWRITES = {
    "using": ("int", "10, 20", "ALTER a TYPE int USING a % 3"),
    "numeric": ("numeric(10,3)", "1.256, 2.5", "ALTER a TYPE numeric(10,1)"),
    "text": ("text", "'a long text', 'b'", "ALTER a TYPE varchar(4) USING left(a, 4)"),
    "timestamp": ("timestamp", "'2024-01-01 00:00:00.75', '2024-01-02'", "ALTER a TYPE timestamp(0)"),
    "case": ("text", "'One', 'b'", "ALTER a TYPE text USING upper(a)"),
}
KEEPS = {
    "longer": ("varchar(5)", "ALTER a TYPE varchar(9)"),
    "text": ("varchar(5)", "ALTER a TYPE text"),
    "not null": ("text", "ALTER a SET NOT NULL"),
    "default": ("text", "ALTER a SET DEFAULT 'x'"),
    "statistics": ("text", "ALTER a SET STATISTICS 10"),
    "fillfactor": ("text", "SET (fillfactor = 50)"),
}


def begin(server: PgPlayground, tmp_path: Path, column: str, values: str = "'a', 'b'") -> PgSync:
    first, second = values.split(", ")
    server.create("t", f"id int PRIMARY KEY, a {column}, v int")
    server.run(f"INSERT INTO t VALUES (1, {first}, 1), (2, {second}, 2)")
    sync = PgSync(server, tmp_path)
    sync.run()
    return sync


@pytest.mark.parametrize("case", REWRITES)
def test_older_rows_have_the_values_that_a_statement_made(server: PgPlayground, tmp_path: Path, case: str) -> None:
    column, values, change = REWRITES[case]
    sync = begin(server, tmp_path, column, values)
    before = [row["a"] for row in sync.rows("t").values()]
    server.run(f"ALTER TABLE t {change}", "UPDATE t SET v = 9 WHERE id = 2")
    settle(sync)
    assert [row["a"] for row in sync.rows("t").values()] != before


@pytest.mark.parametrize("case", KEEPS)
def test_a_table_whose_values_stay_is_not_read_again(
    server: PgPlayground, tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    column, change = KEEPS[case]
    sync = begin(server, tmp_path, column)
    server.run(f"ALTER TABLE t {change}", "UPDATE t SET v = 9 WHERE id = 2")
    sync.run()
    server.run("VACUUM FULL t", "UPDATE t SET v = 10 WHERE id = 2")
    with caplog.at_level(logging.INFO):
        settle(sync)
    assert "event=tables_read_again" not in caplog.text


def test_values_of_a_key_that_a_statement_made_replace_the_rows(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v int")
    server.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("INSERT INTO t VALUES (3, 3)", "ALTER TABLE t ALTER id TYPE int USING id + 10, ALTER v TYPE bigint")
    server.run("INSERT INTO t VALUES (1, 4)")
    settle(sync)
    assert sorted(sync.rows("t")) == [1, 11, 12, 13]


def test_values_of_partitions_are_read_again(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, a int) PARTITION BY RANGE (id")
    server.run("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)", "INSERT INTO t VALUES (1, 10), (2, 20)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t ALTER a TYPE int USING a % 3", "INSERT INTO t VALUES (3, 30)")
    settle(sync)
    assert {key: row["a"] for key, row in sync.rows("t").items()} == {1: 1, 2: 2, 3: 30}


def test_a_default_per_row_that_is_dropped_before_the_next_batch_is_in_older_rows(
    server: PgPlayground, tmp_path: Path
) -> None:
    sync = begin(server, tmp_path, "text")
    server.run("ALTER TABLE t ADD COLUMN b float8 DEFAULT random()", "ALTER TABLE t ALTER b DROP DEFAULT")
    server.run("UPDATE t SET v = 9 WHERE id = 2")
    settle(sync)
    assert all(row["b"] is not None for row in sync.rows("t").values())


GENERATED = "a int GENERATED ALWAYS AS (v * 2) STORED"


@pytest.mark.parametrize("again", ["", "DROP DEFAULT", "ADD COLUMN c int DEFAULT 7"])
def test_a_column_that_is_not_generated_any_more_has_its_values_in_older_rows(
    server: PgPlayground, tmp_path: Path, again: str
) -> None:
    server.create("t", f"id int PRIMARY KEY, v int, {GENERATED}")
    server.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path)
    sync.run()
    also = ", ALTER a DROP DEFAULT" if again == "DROP DEFAULT" else f", {again}" if again else ""
    server.run(f"ALTER TABLE t ALTER a DROP EXPRESSION{also}", "UPDATE t SET a = 9 WHERE id = 2")
    settle(sync)
    assert {key: row["a"] for key, row in sync.rows("t").items()} == {1: 2, 2: 9}


def test_a_generated_column_that_was_added_later_has_its_values_too(server: PgPlayground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path, "text")
    server.run("ALTER TABLE t ADD COLUMN b int GENERATED ALWAYS AS (v + 1) STORED", "UPDATE t SET v = 3 WHERE id = 2")
    settle(sync)
    server.run("ALTER TABLE t ALTER b DROP EXPRESSION")
    settle(sync)
    assert {key: row["b"] for key, row in sync.rows("t").items()} == {1: 2, 2: 4}
