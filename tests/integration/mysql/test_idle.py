"""Runs over MySQL without Spark: whether there is nothing to do, and small batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipelines.api.start_order import seems_to_need_spark
from penstock.pipelines.job import build, local_batches
from penstock.pipelines.job.job import Job
from penstock.pipelines.job.local_run import LocalRun
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.without_spark import is_idle, run_without_spark


@pytest.fixture
def sync(server: Playground, tmp_path: Path) -> Sync:
    server.run("CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (1, 1)")
    sync = Sync(server, tmp_path, flags=("--checkpoint", f"{tmp_path}/checkpoint", "--including-tables", "a|b"))
    sync.run()
    return sync


def test_a_run_is_idle_until_rows_arrive(sync: Sync) -> None:
    assert is_idle(sync.spec)
    assert is_idle(sync.spec)  # the question changes nothing
    sync.server.run("INSERT INTO a VALUES (2, 2)")
    assert not is_idle(sync.spec)
    sync.run()
    assert sync.ids("a") == [1, 2]
    assert is_idle(sync.spec)


def test_changes_of_other_tables_move_the_position_as_before(sync: Sync) -> None:
    sync.server.run("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    assert not is_idle(sync.spec)  # the server may delete the log that was passed
    sync.run()
    assert is_idle(sync.spec)


def test_a_new_table_is_copied(sync: Sync) -> None:
    sync.server.run("CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (1)")
    assert not is_idle(sync.spec)
    sync.run()
    assert sync.ids("b") == [1]


def test_a_table_that_a_changed_pattern_adds_is_copied(server: Playground, tmp_path: Path) -> None:
    """What the source notes about a new table while it plans must not make the table one that was read before."""
    server.run("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    server.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    sync = Sync(server, tmp_path, flags=("--checkpoint", f"{tmp_path}/checkpoint", "--including-tables", "a"))
    assert run_without_spark(sync.spec)
    sync.flags = (*sync.flags[:-1], "a|b")
    assert not seems_to_need_spark(sync.spec, runs_here=True)
    assert build.ready(sync.spec).recovery.reread == ()
    job, folder = build.ready(sync.spec), CheckpointFolder(sync.spec.checkpoint)
    with pytest.MonkeyPatch.context() as patch:

        def with_spark(job: Job) -> LocalRun:
            patch.undo()
            return LocalRun(job, folder, fail)

        patch.setattr(local_batches, "TIMES_SMALL", 0)
        LocalRun(job, folder, with_spark).run()
    assert sync.ids("b") == [1]


def fail(job: Job) -> LocalRun:
    raise AssertionError("nothing is left to Spark any more")


def test_a_request_to_read_a_table_again_is_carried_out(sync: Sync) -> None:
    folder = CheckpointFolder(sync.spec.checkpoint)
    folder.signal("snapshot-1.json", ["play.a"])
    assert not is_idle(sync.spec)


def test_a_target_table_that_was_dropped_is_filled_again(sync: Sync) -> None:
    sync.target("a").store.storage.delete_tree(sync.target("a").path)
    assert not is_idle(sync.spec)
    sync.run()
    assert sync.ids("a") == [1]


def test_a_pipeline_runs_from_its_snapshot_on(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (1, 1)")
    sync = Sync(server, tmp_path, flags=("--checkpoint", f"{tmp_path}/checkpoint", "--including-tables", "a|b"))
    assert run_without_spark(sync.spec)
    assert run_without_spark(sync.spec) == []
    server.run("INSERT INTO a VALUES (2, 2)", "ALTER TABLE a ADD COLUMN c INT DEFAULT 7", "UPDATE a SET n = 5")
    assert run_without_spark(sync.spec)
    assert sync.target("a").scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "n": 5, "c": 7},
        {"id": 2, "n": 5, "c": 7},
    ]
    server.run("CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (1)", "DELETE FROM a WHERE id = 1")
    assert run_without_spark(sync.spec)
    assert (sync.ids("a"), sync.ids("b")) == ([2], [1])
    assert run_without_spark(sync.spec) == []
