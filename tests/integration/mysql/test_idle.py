"""Whether a bounded run over MySQL has nothing to do, asked of a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipelines.job import build
from penstock.pipelines.job.idle_run import idle_run
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync


@pytest.fixture
def sync(server: Playground, tmp_path: Path) -> Sync:
    server.run("CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (1, 1)")
    sync = Sync(server, tmp_path, flags=("--checkpoint", f"{tmp_path}/checkpoint", "--including-tables", "a|b"))
    sync.run()
    return sync


def is_idle(sync: Sync) -> bool:
    return idle_run(build.ready(sync.spec), CheckpointFolder(sync.spec.checkpoint)) is not None


def test_a_run_is_idle_until_rows_arrive(sync: Sync) -> None:
    assert is_idle(sync)
    assert is_idle(sync)  # the question changes nothing
    sync.server.run("INSERT INTO a VALUES (2, 2)")
    assert not is_idle(sync)
    sync.run()
    assert sync.ids("a") == [1, 2]
    assert is_idle(sync)


def test_changes_of_other_tables_move_the_position_as_before(sync: Sync) -> None:
    sync.server.run("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    assert not is_idle(sync)  # the server may delete the log that was passed
    sync.run()
    assert is_idle(sync)


def test_a_new_table_is_copied(sync: Sync) -> None:
    sync.server.run("CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (1)")
    assert not is_idle(sync)
    sync.run()
    assert sync.ids("b") == [1]


def test_a_request_to_read_a_table_again_is_carried_out(sync: Sync) -> None:
    folder = CheckpointFolder(sync.spec.checkpoint)
    folder.signal("snapshot-1.json", ["play.a"])
    assert not is_idle(sync)


def test_a_target_table_that_was_dropped_is_filled_again(sync: Sync) -> None:
    sync.target("a").store.storage.delete_tree(sync.target("a").path)
    assert not is_idle(sync)
    sync.run()
    assert sync.ids("a") == [1]
