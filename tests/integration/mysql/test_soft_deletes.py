"""deletes: soft, from a MySQL server: deleted rows stay and are marked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.driver import table_evolution
from penstock.pipelines.driver.emptied_tables import mark_rows
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

pytestmark = pytest.mark.mysql
ROOT = Path(__file__).resolve().parents[3]
SOFT = ["--deletes", "soft"]


@pytest.fixture
def server(mysql: Playground) -> Playground:
    mysql.start_over()
    mysql.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) NOT NULL)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    return mysql


def marks(sync: Sync) -> dict[int, tuple[str, bool]]:
    rows: list[dict[str, Any]] = sync.rows("t")
    assert all((row["_deleted_at"] is not None) == row["_deleted"] for row in rows)
    return {row["id"]: (row["v"], row["_deleted"]) for row in rows}


def test_rows_are_marked_come_back_and_move_to_other_keys(server: Playground, tmp_path: Path) -> None:
    sync = Sync(server, tmp_path, flags=SOFT)
    sync.run()
    assert marks(sync) == {1: ("a", False), 2: ("b", False), 3: ("c", False)}
    server.run("DELETE FROM t WHERE id < 3", "INSERT INTO t VALUES (1, 'again')", "UPDATE t SET id = 30 WHERE id = 3")
    sync.run()
    assert marks(sync) == {1: ("again", False), 2: ("b", True), 3: ("c", True), 30: ("c", False)}
    verdict = sync.verified()[0]
    assert verdict.is_equal
    assert (verdict.source_rows, verdict.table_rows) == (2, 2)
    # A row that the table lost is a difference still.
    server.run("SET SESSION sql_log_bin = 0", "INSERT INTO t VALUES (40, 'unlogged')", "SET SESSION sql_log_bin = 1")
    assert sync.verified()[0].differs


def test_a_table_that_is_read_again_keeps_what_was_deleted(server: Playground, tmp_path: Path) -> None:
    sync = Sync(server, tmp_path, flags=SOFT)
    sync.run()
    server.run("DELETE FROM t WHERE id = 1")
    sync.run()
    first = sync.rows("t")[0]
    server.run("SET SESSION sql_log_bin = 0", "DELETE FROM t WHERE id = 2", "SET SESSION sql_log_bin = 1")
    Sync(server, tmp_path, flags=[*SOFT, "--reset", "ods.t"]).run()
    assert marks(sync) == {1: ("a", True), 2: ("b", True), 3: ("c", False)}
    assert sync.rows("t")[0] == first, "a row keeps the time at which it was deleted"
    assert sync.verified()[0].is_equal


@pytest.mark.parametrize("after", [False, True])
def test_a_truncate_marks_all_rows_once_if_the_driver_is_killed(
    server: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    sync = Sync(server, tmp_path, flags=[*SOFT, "--on-truncate", "delete-all"])
    sync.run()
    server.run("TRUNCATE t", "INSERT INTO t VALUES (3, 'new')")
    mark = mark_rows

    def dying(*arguments: Any) -> None:
        if after:
            mark(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(table_evolution, "mark_rows", dying)
        with pytest.raises(KeyboardInterrupt):
            sync.run()
    sync.run()
    assert marks(sync) == {1: ("a", True), 2: ("b", True), 3: ("new", False)}


KILLS = [
    "penstock.pipelines.driver.commit:Commits.commit:before:1",
    "penstock.table.commit.committer:Committer.commit:after:1",
    "penstock.pipelines.driver.batch_driver:BatchDriver.take:after:1",
]


@pytest.mark.slow
def test_a_process_killed_at_a_commit_marks_each_row_once(server: Playground, tmp_path: Path) -> None:
    sync = Sync(server, tmp_path, flags=SOFT)
    sync.run()
    for number, kill in enumerate(KILLS, start=1):
        server.run(f"DELETE FROM t WHERE id = {number}", f"INSERT INTO t VALUES ({10 * number}, 'new')")
        words = [sys.executable, "-m", "tests.chaos.mysql_child", json.dumps(sync.words), kill]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
    sync.run()
    assert marks(sync) == {
        **{number: ("abc"[number - 1], True) for number in (1, 2, 3)},
        **{10 * number: ("new", False) for number in (1, 2, 3)},
    }
    assert sync.verified()[0].is_equal
