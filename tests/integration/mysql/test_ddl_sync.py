"""DDL at the source, as its tables show it: Paimon's way by default, by option as a barrier between batches."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from penstock.errors import ConfigError, PenstockError, SchemaConflict
from penstock.pipelines.driver import table_evolution
from penstock.pipelines.tasks.batch_report import BatchReport
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync


def columns(sync: Sync, table: str | None = None) -> list[tuple[str, str, bool]]:
    fields = sync.target(table).store.schema().fields
    return [(field.name, str(field.type.root), field.type.nullable) for field in fields]  # type: ignore[union-attr]


def names(sync: Sync, table: str | None = None) -> list[str]:
    return [name for name, _, _ in columns(sync, table)]


def test_columns_are_added_widened_dropped_and_renamed_as_in_paimon(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(5) COMMENT 'bee', c INT)")
    server.run("INSERT INTO t VALUES (1, 1, 'x', 1)")
    sync = Sync(server, tmp_path, "t", ["table-name=t"])
    sync.run()
    assert columns(sync)[1] == ("a", "INT", False)
    server.run(
        "ALTER TABLE t ADD first_one INT FIRST, ADD (m INT, n VARCHAR(3)), MODIFY b VARCHAR(20)",
        "INSERT INTO t (id, a, b, c, first_one, m, n) VALUES (2, 2, 'longer than five', 2, 20, 200, 'n')",
        "ALTER TABLE t DROP COLUMN a, RENAME COLUMN c TO d, MODIFY m BIGINT",
        "INSERT INTO t (id, b, d, m) VALUES (3, 'y', 33, 5000000000)",
        "ALTER TABLE t ADD never_filled DATE",
    )
    sync.run()
    assert names(sync) == ["id", "a", "b", "c", "first_one", "m", "n", "d", "never_filled"]
    assert {name: (kind, null) for name, kind, null in columns(sync)}["a"] == ("INT", True)
    rows = {row["id"]: row for row in sync.rows()}
    assert (rows[2]["first_one"], rows[2]["m"], rows[2]["b"], rows[2]["c"]) == (20, 200, "longer than five", 2)
    assert (rows[3]["a"], rows[3]["c"], rows[3]["d"], rows[3]["m"]) == (None, None, 33, 5_000_000_000)


def test_types_without_a_common_type_stop_the_job_with_both(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    sync = Sync(server, tmp_path, "t", ["table-name=t"])
    sync.run()
    server.run("ALTER TABLE t MODIFY a VARCHAR(5)", "INSERT INTO t VALUES (1, 'x')")
    with pytest.raises(SchemaConflict, match="are not compatible"):
        sync.run()
    sync.flags = ["--type-mapping", "allow-non-string-to-string"]
    sync.run()
    assert sync.rows() == [{"id": 1, "a": "x"}]


def test_an_incompatible_table_is_left_out_if_configured(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE u (id INT PRIMARY KEY, a INT)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t MODIFY a VARCHAR(5)", "INSERT INTO t VALUES (1, 'x')", "INSERT INTO u VALUES (1, 1)")
    sync.flags = ["--ignore-incompatible", "true"]
    sync.run()
    assert (sync.ids("t"), sync.ids("u")) == ([], [1])


DDL = [*("--on-truncate", "delete-all"), *("--on-drop", "delete-all"), *("--on-rename-column", "rename")]


def test_truncate_drop_and_rename_are_ignored_or_applied_at_their_position(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE u (id INT PRIMARY KEY, a INT)")
    server.run("INSERT INTO t VALUES (1, 1), (2, 2)", "INSERT INTO u VALUES (1, 1)")
    ignoring, following = Sync(server, tmp_path / "i"), Sync(server, tmp_path / "f", flags=DDL)
    ignoring.run()
    following.run()
    server.run(
        "INSERT INTO t VALUES (3, 3)",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (4, 4)",
        "ALTER TABLE t RENAME COLUMN a TO z",
        "INSERT INTO t VALUES (5, 5)",
        "DROP TABLE u",
        "CREATE TABLE u (id INT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO u VALUES (9, 9, 9)",
    )
    ignoring.run()
    following.run()
    assert (ignoring.ids("t"), names(ignoring, "t")) == ([1, 2, 3, 4, 5], ["id", "a", "z"])
    assert following.rows("t") == [{"id": 4, "z": 4}, {"id": 5, "z": 5}]
    assert (ignoring.ids("u"), following.ids("u")) == ([1, 9], [9])
    assert all(verdict.is_equal for verdict in following.verified())


class Died(PenstockError):
    """The driver's death at a barrier."""


@pytest.mark.mysql
@pytest.mark.parametrize("after", [False, True])
def test_a_barrier_is_applied_once_if_the_driver_is_killed_before_or_after_it(
    mysql: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    sync = Sync(mysql, tmp_path, flags=DDL)
    sync.run()
    mysql.run(
        "TRUNCATE t", "INSERT INTO t VALUES (3, 3)", "ALTER TABLE t CHANGE a z BIGINT", "INSERT INTO t VALUES (4, 4)"
    )
    crossed = 0
    rename, empty = table_evolution._rename, table_evolution._empty

    def dying(do):  # type: ignore[no-untyped-def]
        def step(*arguments):  # type: ignore[no-untyped-def]
            nonlocal crossed
            crossed += 1
            done = do(*arguments) if after or crossed % 2 == 0 else None
            if crossed % 2:
                raise Died("died at the barrier")
            return done

        return step

    monkeypatch.setattr(table_evolution, "_rename", dying(rename))
    monkeypatch.setattr(table_evolution, "_empty", dying(empty))
    for _ in range(2):
        with pytest.raises(Died):
            sync.run()
    sync.run()
    assert sync.rows("t") == [{"id": 3, "z": 3}, {"id": 4, "z": 4}]
    assert crossed == 4


SWAPS = {
    "change": "ALTER TABLE t CHANGE a b INT, CHANGE b a VARCHAR(9)",
    "rename": "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
}


@pytest.mark.mysql
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("way", list(SWAPS))
def test_a_swap_of_column_names_is_applied_once_if_the_driver_is_killed(
    mysql: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, after: bool
) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))", "INSERT INTO t VALUES (1, 1, 'one')")
    sync = Sync(mysql, tmp_path, flags=DDL)
    sync.run()
    mysql.run(SWAPS[way], "INSERT INTO t (id, a, b) VALUES (2, 'two', 2)")
    rename = table_evolution._rename

    def dying(*arguments):  # type: ignore[no-untyped-def]
        if after:
            rename(*arguments)
        raise Died("died at the barrier")

    with monkeypatch.context() as patched:
        patched.setattr(table_evolution, "_rename", dying)
        with pytest.raises(Died):
            sync.run()
    sync.run()
    assert sync.rows("t") == [{"id": 1, "b": 1, "a": "one"}, {"id": 2, "b": 2, "a": "two"}]
    mysql.run(
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO c",
        "ALTER TABLE t RENAME COLUMN c TO b, RENAME COLUMN b TO c",
        "INSERT INTO t (id, b, c) VALUES (3, 3, 'three')",
    )
    sync.run()
    assert sync.rows("t")[1:] == [{"id": 2, "b": 2, "c": "two"}, {"id": 3, "b": 3, "c": "three"}]
    assert all(verdict.is_equal for verdict in sync.verified())


def test_schema_change_tools_and_renamed_tables(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run(
        "CREATE TABLE _a_gho LIKE a",
        "ALTER TABLE _a_gho ADD w INT DEFAULT 7",
        "INSERT INTO _a_gho (id, v) SELECT id, v FROM a",
        "INSERT INTO a VALUES (3, 3)",
        "INSERT INTO _a_gho (id, v) VALUES (3, 3)",
        "RENAME TABLE a TO _a_del, _a_gho TO a",
        "INSERT INTO a VALUES (4, 4, 40)",
        "CREATE TABLE hidden_source (id INT, v INT)",
        "INSERT INTO hidden_source VALUES (10, 10)",
        "ALTER TABLE hidden_source ADD PRIMARY KEY (id)",
        "RENAME TABLE hidden_source TO shown",
        "INSERT INTO shown VALUES (11, 11)",
    )
    sync.run()
    assert sync.ids("a") == [1, 2, 3, 4]
    assert sync.rows("a")[3] == {"id": 4, "v": 4, "w": 40}
    assert [name for name in sync.tables() if name.startswith("_")] == []
    assert sync.ids("shown") == [10, 11]


def test_shards_are_merged_under_the_chosen_names(server: Playground, tmp_path: Path) -> None:
    shards = [f"{DATABASE}_{number}" for number in range(2)]
    try:
        for number, shard in enumerate(shards):
            extra = ", extra VARCHAR(9)" if number else ""
            server.run(
                f"CREATE DATABASE {shard}",
                f"CREATE TABLE {shard}.t (id INT PRIMARY KEY, v {'BIGINT' if number else 'INT'}{extra})",
                f"INSERT INTO {shard}.t (id, v) VALUES ({number}, {number})",
                f"CREATE TABLE {shard}.left_out (id INT PRIMARY KEY)",
            )
        conf = [f"database-name={DATABASE}_[01]"]
        merged = Sync(server, tmp_path / "m", conf=conf, flags=["--excluding-tables", "left.*", "--table-suffix", "_x"])
        merged.run()
        apart = Sync(server, tmp_path / "a", conf=conf, flags=["--merge-shards", "false", "--including-tables", "t"])
        apart.run()
        server.run(f"INSERT INTO {shards[1]}.t VALUES (5, 5000000000, 'e')", f"DELETE FROM {shards[0]}.t")
        merged.run()
        apart.run()
        assert (merged.tables(), merged.ids("t_x"), names(merged, "t_x")) == (["t_x"], [1, 5], ["id", "v", "extra"])
        assert apart.tables() == [f"{shard}_t" for shard in shards]
        assert apart.ids(f"{shards[1]}_t") == [1, 5]
        assert all(verdict.is_equal for verdict in merged.verified())
        with pytest.raises(ConfigError, match="cannot be emptied"):
            Sync(server, tmp_path / "e", conf=conf, flags=DDL).run()
        with pytest.raises(ConfigError, match="cannot rename its columns"):
            Sync(server, tmp_path / "e", conf=conf, flags=DDL[4:]).run()
    finally:
        server.run(*(f"DROP DATABASE IF EXISTS {shard}" for shard in shards))


def test_a_binlog_without_names_is_read_with_the_schema_history(server: Playground, tmp_path: Path) -> None:
    before = server.rows("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.run(f"SET GLOBAL binlog_row_metadata = '{'NO_LOG' if server.is_mariadb else 'MINIMAL'}'")
    try:
        server.start_over()
        server.run("CREATE TABLE t (id INT PRIMARY KEY, flag TINYINT(1), big BIGINT UNSIGNED, e ENUM('x', 'y'))")
        server.run("INSERT INTO t VALUES (1, 1, 18446744073709551615, 'y')")
        sync = Sync(server, tmp_path)
        sync.run()
        server.run(
            "INSERT INTO t VALUES (2, 0, 18446744073709551614, 'x')",
            "ALTER TABLE t ADD first_one VARCHAR(9) FIRST",
            "INSERT INTO t VALUES ('f', 3, 1, 7, 'y')",
        )
        sync.run()
        server.run(
            "ALTER TABLE t DROP flag, MODIFY e ENUM('x', 'y', 'z')",
            "INSERT INTO t VALUES ('g', 4, 8, 'z')",
            "CREATE TABLE u LIKE t",
            "INSERT INTO u VALUES ('h', 5, 9, 'x')",
        )
        sync.run()
        assert [(row["id"], row["flag"], row["e"]) for row in sync.rows("t")] == [
            (1, True, "y"),
            (2, False, "x"),
            (3, True, "y"),
            (4, None, "z"),
        ]
        assert sync.ids("u") == [5]
        assert all(verdict.is_equal for verdict in sync.verified())
    finally:
        server.run(f"SET GLOBAL binlog_row_metadata = '{before}'")


LEFT_OUT = [
    "CREATE SEQUENCE numbers",
    "CREATE TABLE past (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
    "CREATE TABLE periods (id INT PRIMARY KEY, v INT, a TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
    " b TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME(a, b)) WITH SYSTEM VERSIONING",
]
CHANGES_LEFT_OUT = [
    "SELECT NEXTVAL(numbers)",
    "INSERT INTO past VALUES (1, 1)",
    "UPDATE past SET v = 2",
    "INSERT INTO periods (id, v) VALUES (1, 1)",
    "DELETE FROM periods",
]


@pytest.mark.parametrize("names", ["none", "all"])
@pytest.mark.parametrize("when", ["there before", "made meanwhile"])
def test_rows_of_left_out_tables_in_the_binlog_stop_nothing(
    server: Playground, tmp_path: Path, names: str, when: str
) -> None:
    before = server.rows("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    bare = "NO_LOG" if server.is_mariadb else "MINIMAL"
    made = ["CREATE TABLE keyless (a INT, b VARCHAR(9))", *(LEFT_OUT if server.is_mariadb else [])]
    changed = ["INSERT INTO keyless VALUES (1, 'x')", *(CHANGES_LEFT_OUT if server.is_mariadb else [])]
    server.run(f"SET GLOBAL binlog_row_metadata = '{bare if names == 'none' else 'FULL'}'")
    try:
        server.start_over()
        server.run("CREATE TABLE t (id INT PRIMARY KEY)", *(made if when == "there before" else []))
        sync = Sync(server, tmp_path)
        sync.run()
        server.run(*([] if when == "there before" else made), *changed, "INSERT INTO t VALUES (1)")
        sync.run()
        assert sync.tables() == ["t"]
        assert sync.ids("t") == [1]
        # With a key, what was there before it is read too, beside a log that did not show it.
        server.run("INSERT INTO keyless VALUES (2, 'y')", "ALTER TABLE keyless ADD id INT AUTO_INCREMENT PRIMARY KEY")
        server.run("INSERT INTO keyless (a) VALUES (3)")
        sync.run()
        assert [row["a"] for row in sync.rows("keyless")] == [1, 2, 3]
        assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    finally:
        server.run(f"SET GLOBAL binlog_row_metadata = '{before}'")


def test_a_binlog_is_read_across_the_change_to_full_metadata(server: Playground, tmp_path: Path) -> None:
    before = server.rows("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.run(f"SET GLOBAL binlog_row_metadata = '{'NO_LOG' if server.is_mariadb else 'MINIMAL'}'")
    try:
        server.start_over()
        server.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
        sync = Sync(server, tmp_path)
        sync.run()
        server.run("UPDATE t SET v = 2", "ALTER TABLE t ADD w INT FIRST", "UPDATE t SET w = 3")
        server.run("SET GLOBAL binlog_row_metadata = 'FULL'", "INSERT INTO t VALUES (9, 9, 9)")
        sync.run()
        assert [tuple(row.values()) for row in sync.rows("t")] == [(1, 2, 3), (9, 9, 9)]
    finally:
        server.run(f"SET GLOBAL binlog_row_metadata = '{before}'")


@pytest.mark.mariadb
def test_a_table_that_becomes_system_versioned_stops_the_job_with_a_hint(mariadb: Playground, tmp_path: Path) -> None:
    mariadb.start_over()
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE u (id INT PRIMARY KEY)")
    sync = Sync(mariadb, tmp_path)
    sync.run()
    mariadb.run("ALTER TABLE t ADD SYSTEM VERSIONING", "INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (1)")
    with pytest.raises(SchemaConflict, match="system versioned"):
        sync.run()
    sync.flags = ["--excluding-tables", "t"]
    sync.run()
    assert sync.ids("u") == [1]


def test_a_table_dropped_during_its_snapshot_stops_nothing(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE gone (id INT PRIMARY KEY)", "CREATE TABLE stays (id INT PRIMARY KEY)")
    server.run("INSERT INTO gone VALUES " + ", ".join(f"({n})" for n in range(200)), "INSERT INTO stays VALUES (1)")
    conf = ["scan.incremental.snapshot.chunk.size=20"]
    sync = Sync(server, tmp_path, conf=conf, flags=["--max-batch-rows", "40"])
    dropped: list[bool] = []

    def drop(*_: object) -> None:
        if not dropped:
            dropped.append(True)
            server.run("DROP TABLE gone")

    sync.run(drop)
    assert sync.ids("stays") == [1]


def test_a_failing_table_is_parked_and_applies_missed_batches_later(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE u (id INT PRIMARY KEY, a INT)")
    server.run("INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (1, 1)")
    sync = Sync(server, tmp_path, flags=["--isolate", "true"])
    sync.run()
    server.run("ALTER TABLE t MODIFY a VARCHAR(5)", "INSERT INTO t VALUES (2, 'x')", "INSERT INTO u VALUES (2, 2)")
    sync.run()
    server.run("UPDATE t SET a = 'y' WHERE id = 1", "INSERT INTO u VALUES (3, 3)")
    sync.run()
    assert sync.rows("u") == [{"id": key, "a": key} for key in (1, 2, 3)]
    assert sync.rows("t") == [{"id": 1, "a": 1}]
    sync.flags = [*sync.flags, "--type-mapping", "allow-non-string-to-string", "--retry", "true"]
    sync.run()
    assert sync.rows("t") == [{"id": 1, "a": "y"}, {"id": 2, "a": "x"}]
    server.run("INSERT INTO t VALUES (3, 'z')")
    sync.run()
    assert [row["id"] for row in sync.rows("t")] == [1, 2, 3]


def test_ignored_ddl_is_logged_and_counted(
    server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("emptied", "dropped", "moved", "named"):
        server.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT)", f"INSERT INTO {name} VALUES (1, 1)")
    server.run("CREATE TABLE keyless (a INT)", "CREATE TABLE keyless_too (a INT)", "INSERT INTO keyless VALUES (1)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run(
        "TRUNCATE emptied",
        "TRUNCATE keyless",
        "RENAME TABLE keyless TO without",
        "DROP TABLE keyless_too",
        "DROP TABLE dropped",
        "RENAME TABLE moved TO elsewhere",
        "ALTER TABLE named RENAME COLUMN a TO b",
    )
    counted: Counter[str] = Counter()
    with caplog.at_level(logging.WARNING):
        sync.run(on_batch=lambda identity, report: counted.update(report.passed_over))
    assert {name: sync.ids(name) for name in ("emptied", "dropped", "moved")} == {
        "emptied": [1],
        "dropped": [1],
        "moved": [1],
    }
    assert (counted["messages.truncate"], counted["messages.drop"], counted["messages.rename-column"]) == (1, 2, 1)
    for line in (
        f"event=truncate_not_followed table={DATABASE}.emptied",
        f"event=drop_not_followed table={DATABASE}.dropped",
        f"event=drop_not_followed table={DATABASE}.moved",
        f"event=rename_not_followed table={DATABASE}.named columns=a->b",
    ):
        assert line in caplog.text
    assert not [message for message in caplog.messages if "not_followed" in message and "keyless" in message]
    sync.flags = ["--on-truncate", "delete-all", "--on-drop", "delete-all", "--on-rename-column", "rename"]
    caplog.clear()
    server.run("TRUNCATE emptied")
    sync.run()
    assert sync.ids("emptied") == []
    assert "not_followed" not in caplog.text


def test_a_renamed_column_is_not_reported_as_missing_in_updates(
    server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has rows whole, or its reader stops: what is missing in them is not there at the source any more."""
    server.run("CREATE TABLE t (id INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (1, 1)")
    sync = Sync(server, tmp_path, "t", ["table-name=t"])
    sync.run()
    server.run("ALTER TABLE t RENAME COLUMN b TO c", "UPDATE t SET c = 2")
    reports: list[BatchReport] = []
    sync.run(lambda _, report: reports.append(report))
    assert sync.rows() == [{"id": 1, "b": None, "c": 2}]
    assert [report.passed_over["updates.without.columns"] for report in reports] == [0] * len(reports)
    assert "binlog_row_image" not in caplog.text


def test_rows_that_are_older_than_a_column_get_its_value(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    sync = Sync(server, tmp_path, "t", ["table-name=t"])
    sync.run()
    server.run(
        "ALTER TABLE t ADD n INT NOT NULL, ADD d VARCHAR(9) DEFAULT 'seven', ADD e INT",
        "ALTER TABLE t ADD twice INT AS (a * 2) STORED",
        "UPDATE t SET a = 10 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
    )
    sync.run()
    assert sync.rows() == [
        {"id": 1, "a": 10, "n": 0, "d": "seven", "e": None, "twice": 20},
        {"id": 3, "a": 3, "n": 0, "d": "seven", "e": None, "twice": 6},
    ]
    assert [verdict.is_equal for verdict in sync.verified()] == [True]
    before = sync.target().store.snapshots.latest_id()
    sync.run()
    assert sync.target().store.snapshots.latest_id() == before, "the table was read again once"


def test_rows_of_an_input_changelog_are_not_inserted_again_for_a_new_column(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sync = Sync(server, tmp_path, "t", ["table-name=t"], flags=["--table-conf", "changelog-producer=input"])
    sync.run()
    server.run("ALTER TABLE t ADD d INT DEFAULT 7", "INSERT INTO t VALUES (2, 8)")
    sync.run()
    assert sync.rows() == [{"id": 1, "d": None}, {"id": 2, "d": 8}]
