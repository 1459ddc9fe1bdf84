"""Changes between two runs: tables in the warehouse, their names, the captured source tables."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.ingest.mysql.source import MySqlSource
from penstock.ingest.source import Offsets
from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.api.findings import Finding
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.ledger.checkpoint_folder import FILLED_TABLES
from tests.here import note_as_spark_does
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

TABLES = ("CREATE TABLE a (id INT PRIMARY KEY, n INT)", "CREATE TABLE b (id INT PRIMARY KEY, n INT)")


@pytest.fixture
def sync(server: Playground, tmp_path: Path) -> Sync:
    """A pipeline that has taken rows by its first copy and by the log, and rows that wait for it."""
    server.run(*TABLES, "INSERT INTO a VALUES (1, 1), (2, 2)", "INSERT INTO b VALUES (1, 1), (2, 2)")
    sync = Sync(server, tmp_path, flags=("--checkpoint", f"{tmp_path}/checkpoint", "--name", "play"))
    sync.run()
    server.run("INSERT INTO a VALUES (3, 3)", "DELETE FROM a WHERE id = 1", "INSERT INTO b VALUES (3, 3)")
    sync.run()
    server.run("INSERT INTO a VALUES (4, 4)", "INSERT INTO b VALUES (4, 4)")
    return sync


def with_flags(sync: Sync, *flags: str) -> Sync:
    return replace(sync, flags=(*sync.flags, *flags))


def drop(sync: Sync) -> Sync:
    shutil.rmtree(sync.target("a").path)
    return sync


def drop_all(sync: Sync) -> Sync:
    drop(sync)
    shutil.rmtree(sync.target("b").path)
    return sync


def leave_out(sync: Sync) -> Sync:
    with_flags(sync, "--excluding-tables", "a").run()
    sync.server.run("INSERT INTO a VALUES (5, 5)", "DELETE FROM a WHERE id = 2", "INSERT INTO b VALUES (5, 5)")
    with_flags(sync, "--excluding-tables", "a").run()
    return sync


def another_prefix(sync: Sync) -> Sync:
    return with_flags(sync, "--table-prefix", "x_")


def checked(sync: Sync, prefix: str = "") -> None:
    server = sync.server
    for name in ("a", "b"):
        there = [row[0] for row in server.rows(f"SELECT id FROM {DATABASE}.{name} ORDER BY id")]
        assert sync.ids(f"{prefix}{name}") == there


@pytest.mark.parametrize(
    ("change", "prefix"),
    [(drop, ""), (drop_all, ""), (leave_out, ""), (another_prefix, "x_")],
    ids=["dropped", "all dropped", "left out for a while", "another prefix"],
)
def test_tables_that_lack_rows_are_copied_again(
    sync: Sync, change: Callable[[Sync], Sync], prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    changed = change(sync)
    with caplog.at_level(logging.WARNING):
        changed.run()
    assert "event=table_copied_again" in caplog.text
    checked(changed, prefix)
    sync.server.run("INSERT INTO a VALUES (9, 9)")
    caplog.clear()
    changed.run()
    assert "event=table_copied_again" not in caplog.text
    checked(changed, prefix)


def test_an_interrupted_copy_is_repeated(sync: Sync) -> None:
    drop(sync)
    with pytest.raises(KeyboardInterrupt):
        sync.run(on_batch=_die)
    sync.run()
    checked(sync)


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_rolled_back_table_stops_the_run_until_a_reset(sync: Sync) -> None:
    sync.target("a").rollback_to(1)
    with pytest.raises(CheckpointMismatch, match="rolled back") as error:
        sync.run()
    assert error.value.exit_code == 9
    assert "--reset ods.a" in str(error.value.hint)
    with_flags(sync, "--reset", "a").run()
    checked(sync)
    sync.run()


def test_an_accepted_gap_is_kept_and_not_reported_again(sync: Sync) -> None:
    sync.target("a").rollback_to(1)
    with_flags(sync, "--accept-gap").run()
    assert 3 not in sync.ids("a")
    sync.server.run("INSERT INTO a VALUES (6, 6)")
    sync.run()
    assert sync.ids("a")[-1] == 6


def test_a_foreign_table_is_emptied_only_if_allowed(sync: Sync, tmp_path: Path) -> None:
    other = Sync(sync.server, tmp_path, flags=("--name", "other", "--table-prefix", "x_"))
    other.run()
    with pytest.raises(CheckpointMismatch, match=r"went to ods\.a so far"):
        another_prefix(sync).run()
    assert sync.ids("x_a") == [2, 3, 4]


def test_a_checkpoint_of_an_older_version_resumes(sync: Sync, caplog: pytest.LogCaptureFixture) -> None:
    (Path(sync.spec.checkpoint) / FILLED_TABLES).unlink()
    note_as_spark_does(Path(sync.spec.checkpoint))
    with caplog.at_level(logging.WARNING):
        sync.run()
    assert "event=tables_adopted" in caplog.text
    assert "event=table_copied_again" not in caplog.text
    checked(sync)


def test_tables_created_during_the_run_are_copied_once(sync: Sync, caplog: pytest.LogCaptureFixture) -> None:
    server = sync.server
    server.run("CREATE TABLE c (id INT PRIMARY KEY)", "CREATE TABLE d (id INT PRIMARY KEY)")
    server.run("INSERT INTO c VALUES (1)")
    sync.run()
    server.run("DROP TABLE c", "INSERT INTO d VALUES (1)")
    sync.run()
    server.run("CREATE TABLE c (id INT PRIMARY KEY)", "INSERT INTO c VALUES (2)")
    with caplog.at_level(logging.WARNING):
        sync.run()
    assert "event=table_copied_again" not in caplog.text
    assert (sync.ids("c"), sync.ids("d")) == ([1, 2], [1])


def findings(sync: Sync, level: str) -> list[Finding]:
    found = list(checked_spec(sync.spec))
    return [item for item in found if item.level == level and item.about in {"tables", "source"}]


def test_check_reports_what_the_next_run_will_do(sync: Sync) -> None:
    assert findings(sync, "error") == []
    sync.target("a").rollback_to(1)
    shutil.rmtree(sync.target("b").path)
    (warned,) = (finding for finding in findings(sync, "warning") if "ods.b" in finding.message)
    assert "copies its source tables again" in warned.fix
    (error,) = findings(sync, "error")
    assert (error.message, error.code) == (
        "ods.a: the table was rolled back to before the pipeline's last commit",
        9,
    )
    assert "--reset ods.a" in error.fix


def test_check_reports_a_purged_binlog(sync: Sync) -> None:
    sync.server.run("FLUSH BINARY LOGS", "INSERT INTO a VALUES (7, 7)", "FLUSH BINARY LOGS")
    newest = sync.server.here().file
    while sync.server.rows("SHOW BINARY LOGS")[0][0] != newest:  # MariaDB keeps a file that a reader has just left
        sync.server.run(f"PURGE BINARY LOGS TO '{newest}'")
        time.sleep(0.1)
    (error,) = findings(sync, "error")
    assert error.code == 4
    assert "--resnapshot" in error.fix


@pytest.mark.parametrize("again", ["never", "before it is included", "while it is included"])
def test_a_table_that_was_dropped_while_it_was_left_out_loses_its_rows(sync: Sync, again: str) -> None:
    sync, server = with_flags(sync, "--on-drop", "delete-all"), sync.server
    sync.run()
    excluding = with_flags(sync, "--excluding-tables", "a")
    excluding.run()
    server.run("DROP TABLE a")
    excluding.run()
    made = ("CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (7, 7)")
    if again == "before it is included":
        server.run(*made)
    sync.run()
    if again == "while it is included":
        server.run(*made)
    sync.run()
    assert sync.ids("a") == ([] if again == "never" else [7])
    assert sync.ids("b") == [1, 2, 3, 4]


def test_a_table_that_is_created_after_it_was_left_out_has_only_its_own_rows(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, available = sync.server, MySqlSource.available
    excluding = with_flags(sync, "--excluding-tables", "a")
    excluding.run()
    server.run("DELETE FROM a WHERE id = 2", "DROP TABLE a")
    excluding.run()
    sync.run()
    # Drops are not followed.
    assert sync.ids("a") == [2, 3]

    def created(self: MySqlSource) -> Offsets:
        """The tables are known by now: the run begins."""
        server.run("CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (7, 7)", "DROP TABLE b")
        monkeypatch.undo()
        return available(self)

    monkeypatch.setattr(MySqlSource, "available", created)
    for _ in range(2):
        sync.run()
        assert (sync.ids("a"), sync.ids("b")) == ([7], [1, 2, 3, 4])
