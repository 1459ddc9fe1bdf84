"""Cases of Flink CDC's own integration tests for PostgreSQL that no other test has."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from tests.integration.postgres.sync import PgPlayground, PgSync

pytestmark = pytest.mark.postgres


def test_tables_that_leave_and_join_the_selection_are_followed_while_they_belong_to_it(
    server: PgPlayground, tmp_path: Path
) -> None:
    """A table that comes back has the rows that were written and deleted meanwhile."""
    for table in ("a", "b", "c"):
        server.create(table, "id int PRIMARY KEY, v text")
        server.run(f"INSERT INTO {table} VALUES (1, 'first'), (2, 'first')")
    sync = PgSync(server, tmp_path)
    for number, selected in enumerate(("a", "a|b", "b", "b|c", "a|b|c", "c"), start=10):
        sync.flags = ["--including-tables", selected]
        sync.run()
        for table in ("a", "b", "c"):
            server.run(
                f"INSERT INTO {table} VALUES ({number}, 'new')",
                f"UPDATE {table} SET v = 'of {number}' WHERE id = 1",
                f"DELETE FROM {table} WHERE id = {number - 1}",
            )
        sync.run()
        for table in selected.split("|"):
            assert {key: row["v"] for key, row in sync.rows(table).items()} == {
                1: f"of {number}",
                2: "first",
                number: "new",
            }


def test_a_snapshot_ends_when_the_tables_are_copied(server: PgPlayground, tmp_path: Path) -> None:
    """Another run has the changes since then, as the offsets are kept."""
    server.create("t", "id int PRIMARY KEY, v text")
    server.run("INSERT INTO t SELECT n, 'old' FROM generate_series(1, 50) n")
    sync = PgSync(server, tmp_path, conf=["scan.startup.mode=snapshot", "scan.incremental.snapshot.chunk.size=7"])
    assert sync.spec.pipeline.until == "caught-up"
    sync.run()
    assert {(key, row["v"]) for key, row in sync.rows("t").items()} == {(key, "old") for key in range(1, 51)}
    server.run("UPDATE t SET v = 'new' WHERE id < 9", "INSERT INTO t VALUES (99, 'new')")
    sync.run()
    assert {key for key, row in sync.rows("t").items() if row["v"] == "new"} == {*range(1, 9), 99}


def test_a_start_at_the_latest_position_has_only_later_changes(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    server.run("INSERT INTO t VALUES (1, 'old'), (2, 'old')")
    sync = PgSync(server, tmp_path, conf=["scan.startup.mode=latest-offset"])
    sync.run()
    server.run("UPDATE t SET v = 'new' WHERE id = 2", "INSERT INTO t VALUES (3, 'new')")
    sync.run()
    assert set(sync.rows("t")) == {2, 3}


def test_a_start_at_the_position_of_the_slot_is_refused(server: PgPlayground, tmp_path: Path) -> None:
    """Flink CDC's `committed-offset`: the rows before it may be in no table."""
    with pytest.raises(ConfigError, match=r"Valid scan.startup.mode for Postgres CDC"):
        _ = PgSync(server, tmp_path, conf=["scan.startup.mode=committed-offset"]).spec


def test_messages_in_the_log_are_no_rows(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    sync = PgSync(server, tmp_path)
    sync.run()
    for transactional in ("true", "false"):
        message = f"SELECT pg_logical_emit_message({transactional}, 'outbox', repeat('x', 100000))"
        server.run(f"BEGIN; INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t; {message}; COMMIT")
        server.run("INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t", message)
        sync.run()
    assert sorted(sync.rows("t")) == sorted(int(key) for key in server.run("SELECT id FROM t").split())
