"""Rows that come to a table, or leave it, without a word of the log: with renamed tables, replaced ones, partitions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.errors import SchemaConflict
from penstock.pipelines.api.verify import TableVerdict
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

MIRROR = ["--on-drop", "delete-all"]


def without_names(server: Playground) -> str:
    return f"SET GLOBAL binlog_row_metadata = '{'NO_LOG' if server.is_mariadb else 'MINIMAL'}'"


def differing(sync: Sync) -> Sequence[TableVerdict]:
    return [verdict for verdict in sync.verified() if not verdict.is_equal]


@pytest.mark.parametrize("names", ["none", "all"])
def test_a_table_that_replaces_another_is_copied(server: Playground, tmp_path: Path, names: str) -> None:
    """Loaded beside and renamed: the copy was of another name, which was not taken."""
    before = server.rows("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.run(without_names(server) if names == "none" else "DO 0")
    try:
        server.start_over()
        server.run(
            "CREATE TABLE orders (id INT PRIMARY KEY, v INT)",
            "INSERT INTO orders VALUES (1, 1)",
            "CREATE TABLE loaded (id INT PRIMARY KEY, v INT, flag TINYINT(1))",
            "INSERT INTO loaded VALUES (7, 7, 1), (8, 8, 0)",
        )
        sync = Sync(server, tmp_path, flags=["--including-tables", "orders"])
        sync.run()
        server.run("RENAME TABLE orders TO orders_old, loaded TO orders", "INSERT INTO orders VALUES (9, 9, 1)")
        sync.run()
        assert [(row["id"], row["flag"]) for row in sync.rows("orders")] == [
            (1, None),
            (7, True),
            (8, False),
            (9, True),
        ]
    finally:
        server.run(f"SET GLOBAL binlog_row_metadata = '{before}'")


def test_a_replaced_table_is_emptied_first_if_drops_are_followed(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    server.run("CREATE TABLE n (id INT PRIMARY KEY, a INT)", "INSERT INTO n VALUES (2, 2)")
    server.run("CREATE TABLE g (id INT PRIMARY KEY)", "INSERT INTO g VALUES (1)")
    sync = Sync(server, tmp_path, flags=MIRROR)
    sync.run()
    server.run(
        "RENAME TABLE t TO t_old, n TO t",
        "INSERT INTO t VALUES (3, 3)",
        "CREATE TABLE _g_gho LIKE g",
        "INSERT INTO _g_gho VALUES (1)",
        "RENAME TABLE g TO _g_del, _g_gho TO g",
    )
    sync.run()
    assert (sync.ids("t"), sync.ids("t_old"), sync.ids("n"), sync.ids("g")) == ([2, 3], [1], [], [1])
    assert differing(sync) == []
    emptied = [snapshot for snapshot in sync.target("g").snapshots if snapshot.commit_kind == "OVERWRITE"]
    assert emptied == []  # a schema change tool's copy has the rows


@pytest.mark.mariadb
def test_a_replaced_table_may_be_dropped_before(mariadb: Playground, tmp_path: Path) -> None:
    mariadb.start_over()
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    sync = Sync(mariadb, tmp_path, flags=MIRROR)
    sync.run()
    mariadb.run("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (2, 2)")
    sync.run()
    assert sync.ids("t") == [2]
    assert differing(sync) == []


@pytest.mark.mariadb
def test_rows_of_replaced_tables_come_with_their_tables(mariadb: Playground, tmp_path: Path) -> None:
    mariadb.start_over()
    for name in "abc":
        mariadb.run(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    sync = Sync(mariadb, tmp_path, flags=[*MIRROR, "--on-truncate", "delete-all"])
    sync.run()
    # Each statement and its rows are one transaction, and the next statement is followed between two batches too.
    mariadb.run(
        "CREATE OR REPLACE TABLE a (PRIMARY KEY (id)) SELECT 2 AS id",
        "CREATE OR REPLACE TABLE b (PRIMARY KEY (id)) SELECT 3 AS id",
        "TRUNCATE c",
    )
    sync.run()
    assert [sync.ids(name) for name in "abc"] == [[2], [3], []]
    assert differing(sync) == []


PARTITIONED = (
    "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
    "INSERT INTO t VALUES (1), (11)",
    "CREATE TABLE x (id INT PRIMARY KEY)",
    "INSERT INTO x VALUES (5)",
)


def test_rows_of_an_exchanged_partition_are_read(
    server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.run(*PARTITIONED)
    sync = Sync(server, tmp_path)
    sync.run()
    with caplog.at_level(logging.WARNING):
        server.run("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x", "INSERT INTO t VALUES (6)")
        sync.run()
    # What left stays, as with TRUNCATE; that is said.
    assert (sync.ids("t"), sync.ids("x")) == ([1, 5, 6, 11], [1, 5])
    assert f"event=rows_moved_unlogged table={DATABASE}.t how=EXCHANGE PARTITION" in caplog.text
    if server.is_mariadb:
        server.run(
            "ALTER TABLE t CONVERT PARTITION p0 TO TABLE z",
            "INSERT INTO x VALUES (25)",
            "DELETE FROM x WHERE id = 1",
            "ALTER TABLE t CONVERT TABLE x TO PARTITION p2 VALUES LESS THAN (30)",
        )
        sync.run()
        assert (sync.ids("t"), sync.ids("z")) == ([1, 5, 6, 11, 25], [5, 6])


REMOVALS = {
    "drop": "ALTER TABLE t DROP PARTITION p0",
    "truncate": "ALTER TABLE t TRUNCATE PARTITION p0",
    "exchange": "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x",
    "all": "ALTER TABLE t TRUNCATE PARTITION ALL",
}


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("case", REMOVALS)
def test_rows_that_left_with_a_partition_are_followed_or_counted(
    server: Playground, tmp_path: Path, case: str, follows: bool
) -> None:
    server.run(*PARTITIONED)
    sync = Sync(server, tmp_path, flags=("--on-truncate", "delete-all") if follows else ())
    sync.run()
    counted: Counter[str] = Counter()
    server.run("INSERT INTO t VALUES (2)", REMOVALS[case], "INSERT INTO t VALUES (12)")
    sync.run(on_batch=lambda _, report: counted.update(report.passed_over))
    sync.run()
    there = [row[0] for row in server.rows("SELECT id FROM t ORDER BY id")]
    if follows:
        assert (sync.ids("t"), counted["messages.rows-moved"]) == (there, 0)
        assert differing(sync) == []
    else:
        assert sync.ids("t") == sorted({1, 2, 11, 12, *there})
        assert counted["messages.rows-moved"] == (2 if case == "exchange" else 1)


@pytest.mark.mariadb
@pytest.mark.parametrize("follows", [True, False])
def test_rows_that_alter_ignore_removes_are_followed_or_counted(
    mariadb: Playground, tmp_path: Path, follows: bool
) -> None:
    mariadb.start_over()
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)")
    sync = Sync(mariadb, tmp_path, flags=("--on-truncate", "delete-all") if follows else ())
    sync.run()
    counted: Counter[str] = Counter()
    mariadb.run("ALTER IGNORE TABLE t ADD COLUMN w INT, ADD UNIQUE (v)", "INSERT INTO t VALUES (4, 4, 4)")
    sync.run(on_batch=lambda _, report: counted.update(report.passed_over))
    sync.run()
    assert (sync.ids("t"), counted["messages.rows-moved"]) == (([1, 3, 4], 0) if follows else ([1, 2, 3, 4], 1))


@pytest.mark.mysql
@pytest.mark.parametrize("shown", ["ON", "OFF"])
def test_a_generated_invisible_primary_key_counts_as_a_key(mysql: Playground, tmp_path: Path, shown: str) -> None:
    mysql.start_over()
    mysql.run(f"SET GLOBAL show_gipk_in_create_table_and_information_schema = {shown}")
    mysql.run("SET SESSION sql_generate_invisible_primary_key = ON", "CREATE TABLE t (a INT)")
    try:
        mysql.run("INSERT INTO t VALUES (1), (1)")
        sync = Sync(mysql, tmp_path)
        sync.run()
        mysql.run("INSERT INTO t VALUES (2)", "DELETE FROM t WHERE my_row_id = 1")
        sync.run()
        assert [(int(row["my_row_id"]), row["a"]) for row in sync.rows("t", order="my_row_id")] == [(2, 1), (3, 2)]
        assert differing(sync) == []
    finally:
        mysql.run("SET GLOBAL show_gipk_in_create_table_and_information_schema = ON")
        mysql.run("SET SESSION sql_generate_invisible_primary_key = OFF")


@pytest.mark.parametrize("flags", [[], ["--on-rename-column", "rename"]])
def test_a_column_renamed_during_the_snapshot_keeps_its_values(
    server: Playground, tmp_path: Path, flags: list[str]
) -> None:
    """The rows read have the new name, what the log says of them before the rename the old one."""
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    server.run("INSERT INTO t VALUES " + ", ".join(f"({n}, {n})" for n in range(100)))
    conf = ["scan.incremental.snapshot.chunk.size=20"]
    sync = Sync(server, tmp_path, conf=conf, flags=["--max-batch-rows", "40", *flags])
    renamed: list[bool] = []

    def rename(*_: object) -> None:
        if not renamed:
            renamed.append(True)
            server.run(
                "UPDATE t SET a = -a", "ALTER TABLE t RENAME COLUMN a TO b", "UPDATE t SET b = b - 1 WHERE id > 90"
            )

    sync.run(rename)
    assert differing(sync) == []
    assert [row["b"] for row in sync.rows("t")] == [-n - (n > 90) for n in range(100)]


def test_a_changed_source_key_is_logged_and_verify_reports_its_rows(
    server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (1, 1)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a, b)", "INSERT INTO t VALUES (1, 2)")
    with caplog.at_level(logging.WARNING):
        sync.run()
    assert f"event=key_changed table={DATABASE}.t before=a now=a,b" in caplog.text
    [verdict] = differing(sync)
    assert [(key.how, key.key) for key in verdict.keys] == [("doubled", {"a": 1})]


def test_a_pipeline_whose_tables_are_all_dropped_still_reads_their_drops(server: Playground, tmp_path: Path) -> None:
    server.run("DROP DATABASE IF EXISTS passing", "CREATE DATABASE passing")
    server.run("CREATE TABLE passing.t (id INT PRIMARY KEY)", "INSERT INTO passing.t VALUES (1)")
    sync = Sync(server, tmp_path, conf=["database-name=passing"], flags=MIRROR)
    sync.run()
    server.run("INSERT INTO passing.t VALUES (2)", "DROP DATABASE passing")
    sync.run()
    assert sync.ids("t") == []
    server.run(
        "CREATE DATABASE passing", "CREATE TABLE passing.t (id INT PRIMARY KEY)", "INSERT INTO passing.t VALUES (3)"
    )
    sync.run()
    assert sync.ids("t") == [3]
    server.run("DROP TABLE passing.t", "CREATE TABLE passing.t (k INT PRIMARY KEY)", "INSERT INTO passing.t VALUES (4)")
    try:
        with pytest.raises(SchemaConflict, match="created again with another key"):
            sync.run()
    finally:
        server.run("DROP DATABASE passing")
