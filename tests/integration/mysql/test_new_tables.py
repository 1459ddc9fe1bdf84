"""Tables that a running pipeline finds: whatever fails while they are found, and whatever happened to them before."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.ingest.database import reachability
from penstock.ingest.mysql.planner import Planner
from penstock.ingest.mysql.recorded_history import DefinitionStore
from penstock.ingest.mysql.server.login import GuardedConnection
from penstock.pipelines.ledger.batch_logs import BatchLogs
from tests.integration.failing_calls import Countdown, Killed, die, lose_connection
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.without_spark import run_without_spark


@pytest.fixture
def before(server: Playground, tmp_path: Path) -> Sync:
    """A pipeline that has copied `a`, and is to read `b`, which is older, and `c`, which is new."""
    server.run("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    server.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1), (2)")
    sync = Sync(server, tmp_path / "before", flags=("--including-tables", "a"))
    assert run_without_spark(checkpointed(sync).spec)
    server.run("CREATE TABLE c (id INT PRIMARY KEY)", "INSERT INTO c VALUES (1)", "INSERT INTO a VALUES (2)")
    return sync


def checkpointed(sync: Sync) -> Sync:
    sync.flags = (*sync.flags, "--checkpoint", f"{sync.folder}/checkpoint")
    return sync


def copies(before: Sync) -> Iterator[tuple[int, Sync]]:
    """Yield copies of the pipeline, which read all tables from now on, each with its number."""
    for number in itertools.count(1):
        folder = before.folder.with_name(f"copy-{number}")
        shutil.copytree(before.folder, folder)
        yield number, checkpointed(Sync(before.server, folder, flags=("--including-tables", "a|b|c")))


def ends_in(sync: Sync) -> None:
    assert [sync.ids(name) for name in "abc"] == [[1, 2], [1, 2], [1]]
    assert all(verdict.is_equal for verdict in sync.verified())


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE b ADD n INT",
        "ALTER TABLE b RENAME COLUMN id TO id",
        "TRUNCATE TABLE b",
        "RENAME TABLE b TO x, x TO b",
    ],
)
def test_a_table_that_was_altered_while_it_was_excluded_is_copied(server: Playground, tmp_path: Path, sql: str) -> None:
    server.run("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    server.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1), (2)")
    sync = checkpointed(Sync(server, tmp_path, flags=("--including-tables", "a")))
    assert run_without_spark(sync.spec)
    server.run(sql, "INSERT INTO b (id) VALUES (3)", "INSERT INTO a VALUES (2)")
    assert run_without_spark(sync.spec)
    server.run("INSERT INTO b (id) VALUES (4)", "DELETE FROM b WHERE id = 1")
    sync.flags = ("--including-tables", "a|b", *sync.flags[2:])
    assert run_without_spark(sync.spec)
    assert all(verdict.is_equal for verdict in sync.verified())
    assert sync.ids("b") == [row[0] for row in server.rows("SELECT id FROM b ORDER BY id")]


@pytest.mark.parametrize("running", [True, False], ids=["streamed", "copied"])
def test_a_table_that_is_created_and_altered_in_one_batch_has_the_values(
    server: Playground, tmp_path: Path, running: bool
) -> None:
    """Rows of the log from before the column must not overwrite those that were copied with it."""
    server.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    sync = checkpointed(Sync(server, tmp_path, flags=("--including-tables", "a|b")))
    assert run_without_spark(sync.spec)
    statements = ("CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (1), (2)")
    more = ("ALTER TABLE b ADD n INT DEFAULT 5", "INSERT INTO b (id) VALUES (3)", "ALTER TABLE b ADD m INT NOT NULL")
    with pytest.MonkeyPatch.context() as patch:
        if running:  # a run that finds the table in the log, not at its start
            found = Planner.next

            def created(self: Planner, *rest: object) -> object:
                if not server.rows("SHOW TABLES LIKE 'b'"):
                    found(self, *rest)  # type: ignore[arg-type]  # those of the caller
                    server.run(*statements, *more)
                return found(self, *rest)  # type: ignore[arg-type]  # those of the caller

            patch.setattr(Planner, "next", created)
        else:
            server.run(*statements, *more)
        for _ in range(3):
            run_without_spark(sync.spec)
    assert [(row["id"], row["n"], row["m"]) for row in sync.rows("b")] == [(1, 5, 0), (2, 5, 0), (3, 5, 0)]
    assert all(verdict.is_equal for verdict in sync.verified())


def test_a_lost_connection_hides_no_table(before: Sync) -> None:
    """The n-th statement of the plans fails, and the plan is made again by the same run or the next one."""
    for number, sync in copies(before):
        countdown = Countdown(number, lose_connection, counts=False)
        with pytest.MonkeyPatch.context() as patch:
            connection = GuardedConnection
            patch.setattr(connection, "query", countdown.around(connection.query))
            patch.setattr(reachability, "_PAUSE_S", 0.0)
            patch.setattr(Planner, "next", countdown.within(Planner.next))
            try:
                run_without_spark(sync.spec)
            except PenstockError:
                run_without_spark(sync.spec)
        ends_in(sync)
        if countdown.left > 0:
            break
    assert number > 20


@pytest.mark.parametrize(
    ("place", "name", "after"),
    [
        (DefinitionStore, "add", True),
        (BatchLogs, "plan", False),
        (BatchLogs, "plan", True),
        (BatchLogs, "finish", False),
    ],
)
def test_a_kill_hides_no_table_and_needs_no_new_copy(before: Sync, place: type, name: str, after: bool) -> None:
    for number, sync in copies(before):
        countdown = Countdown(number, die, after=after)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, name, countdown.around(getattr(place, name)))
            try:
                run_without_spark(sync.spec)
            except Killed:
                patch.undo()
                run_without_spark(sync.spec)
        ends_in(sync)
        if countdown.left > 0:
            break


def test_a_table_that_is_included_later_is_copied_as_of_a_position_once(server: Playground, tmp_path: Path) -> None:
    """The batch that copies the table ends at the position at which it began, and the next one begins there too."""
    server.run("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    server.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1), (2)")
    exact = ("--table-conf", "changelog-producer=lookup", "--table-conf", "bucket=1")
    sync = checkpointed(Sync(server, tmp_path, flags=("--including-tables", "a", *exact)))
    assert run_without_spark(sync.spec)
    server.run("INSERT INTO b VALUES (3)", "INSERT INTO a VALUES (2)")
    sync.flags = ("--including-tables", "a|b", *sync.flags[2:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Planner, "next", Countdown(50, die).around(Planner.next))  # a run that does not end
        for _ in range(2):
            run_without_spark(sync.spec)
    assert all(verdict.is_equal for verdict in sync.verified())
    assert sync.ids("b") == [1, 2, 3]
