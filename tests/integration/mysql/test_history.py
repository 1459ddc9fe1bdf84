"""deletes: history, from a MySQL server: every version of a row stays."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.driver import table_evolution
from penstock.pipelines.driver.emptied_tables import end_versions
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.integration.mysql.test_soft_deletes import ROOT

pytestmark = pytest.mark.mysql
HISTORY = ["--deletes", "history", "--table_conf", "bucket=2"]


@pytest.fixture
def server(mysql: Playground) -> Playground:
    mysql.start_over()
    mysql.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) NOT NULL)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    return mysql


def versions(sync: Sync) -> dict[int, list[tuple[str, bool]]]:
    """The versions of each key in order, and whether they are current, after checks of their times."""
    rows: list[dict[str, Any]] = sorted(sync.rows("t"), key=lambda row: (row["is_current"], row["_end_position"]))
    found: dict[int, list[tuple[str, bool]]] = {}
    for row in rows:
        assert (row["valid_to"] is None) == row["is_current"]
        assert row["is_current"] or row["valid_from"] <= row["valid_to"]
        found.setdefault(row["id"], []).append((row["v"], row["is_current"]))
    return found


def of_key(sync: Sync, key: int) -> list[dict[str, Any]]:
    return sorted((row for row in sync.rows("t") if row["id"] == key), key=lambda row: row["_end_position"])


def test_versions_of_rows_that_are_updated_deleted_and_inserted_again(server: Playground, tmp_path: Path) -> None:
    sync = Sync(server, tmp_path, flags=HISTORY)
    sync.run()
    server.run(
        "UPDATE t SET v = 'x' WHERE id = 1",
        "UPDATE t SET v = 'y' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (2, 'again')",
        "UPDATE t SET id = 30 WHERE id = 3",
    )
    sync.run()
    assert versions(sync) == {
        1: [("a", False), ("x", False), ("y", True)],
        2: [("b", False), ("again", True)],
        3: [("c", False)],
        30: [("c", True)],
    }
    verdict = sync.verified()[0]
    assert verdict.is_equal
    assert (verdict.source_rows, verdict.table_rows) == (3, 3)
    # A row that the table lost is a difference still.
    server.run("SET SESSION sql_log_bin = 0", "INSERT INTO t VALUES (40, 'unlogged')", "SET SESSION sql_log_bin = 1")
    assert sync.verified()[0].differs


def test_a_table_that_is_read_again_gets_versions_only_for_what_differs(server: Playground, tmp_path: Path) -> None:
    sync = Sync(server, tmp_path, flags=HISTORY)
    sync.run()
    server.run("UPDATE t SET v = 'x' WHERE id = 1")
    sync.run()
    first = of_key(sync, 1)
    server.run(
        "SET SESSION sql_log_bin = 0",
        "DELETE FROM t WHERE id = 2",
        "UPDATE t SET v = 'other' WHERE id = 3",
        "SET SESSION sql_log_bin = 1",
    )
    Sync(server, tmp_path, flags=[*HISTORY, "--reset", "ods.t"]).run()
    assert versions(sync) == {1: [("a", False), ("x", True)], 2: [("b", False)], 3: [("c", False), ("other", True)]}
    assert of_key(sync, 1) == first, "a version that goes on stays as it is"
    assert sync.verified()[0].is_equal


@pytest.mark.parametrize("after", [False, True])
def test_a_truncate_ends_all_versions_once_if_the_driver_is_killed(
    server: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    sync = Sync(server, tmp_path, flags=[*HISTORY, "--on-truncate", "delete-all"])
    sync.run()
    server.run("TRUNCATE t", "INSERT INTO t VALUES (3, 'new')")
    end = end_versions

    def dying(*arguments: Any) -> None:
        if after:
            end(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(table_evolution, "end_versions", dying)
        with pytest.raises(KeyboardInterrupt):
            sync.run()
    sync.run()
    rows = {(row["id"], row["v"]): row["is_current"] for row in sync.rows("t")}
    assert rows == {(1, "a"): False, (2, "b"): False, (3, "c"): False, (3, "new"): True}
    assert sync.verified()[0].is_equal


KILLS = [
    "penstock.pipelines.driver.commit:Commits.commit:before:1",
    "penstock.table.commit.committer:Committer.commit:after:1",
]


@pytest.mark.slow
def test_a_process_killed_at_a_commit_writes_each_version_once(server: Playground, tmp_path: Path) -> None:
    sync = Sync(server, tmp_path, flags=HISTORY)
    sync.run()
    for number, kill in enumerate(KILLS, start=1):
        server.run(f"UPDATE t SET v = 'x{number}' WHERE id = 1", f"DELETE FROM t WHERE id = {number}")
        server.run(f"INSERT INTO t VALUES ({number}, 'y')")
        words = [sys.executable, "-m", "tests.chaos.mysql_child", json.dumps(sync.words), kill]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
    sync.run()
    assert versions(sync) == {
        1: [("a", False), ("x1", False), ("y", False), ("x2", True)],
        2: [("b", False), ("y", True)],
        3: [("c", True)],
    }
    assert sync.verified()[0].is_equal
