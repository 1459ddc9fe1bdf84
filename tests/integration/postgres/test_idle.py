"""Runs over PostgreSQL without Spark: whether there is nothing to do, and small batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.postgres.sync import SLOT, PgPlayground, PgSync
from tests.without_spark import is_idle, run_without_spark

pytestmark = pytest.mark.postgres


def confirmed(server: PgPlayground) -> str:
    return server.run(f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{SLOT}'")


def test_a_run_is_idle_until_rows_arrive_or_the_slot_has_to_move(server: PgPlayground, tmp_path: Path) -> None:
    server.create("a", "id int PRIMARY KEY")
    server.create("other", "id int PRIMARY KEY")
    server.run("INSERT INTO a VALUES (1)")
    sync = PgSync(server, tmp_path, "a", ["table-name=a"])
    sync.run()
    while not is_idle(sync.spec):  # the log has to pass the instant at which the rows were read
        sync.run()
    before = confirmed(server)
    assert is_idle(sync.spec)
    assert confirmed(server) == before
    server.run("INSERT INTO a VALUES (2)")
    assert not is_idle(sync.spec)
    sync.run()
    assert sorted(sync.rows("a")) == [1, 2]
    # The server keeps its log until a batch has moved the position of the slot, so there is a batch.
    server.run("INSERT INTO other SELECT generate_series(1, 1000)")
    assert not is_idle(sync.spec)
    sync.run()
    assert confirmed(server) != before


def test_a_pipeline_runs_from_its_snapshot_on(server: PgPlayground, tmp_path: Path) -> None:
    server.create("a", "id int PRIMARY KEY")
    server.run("INSERT INTO a VALUES (1)")
    sync = PgSync(server, tmp_path, "a", ["table-name=a"])
    run_without_spark(sync.spec)
    before = confirmed(server)
    server.run("INSERT INTO a VALUES (2)", "ALTER TABLE a ADD COLUMN c int DEFAULT 7", "DELETE FROM a WHERE id = 1")
    assert run_without_spark(sync.spec)
    assert confirmed(server) != before
    server.run("INSERT INTO a VALUES (3, 8)")
    assert run_without_spark(sync.spec)
    assert sync.rows("a")[2]["c"] == 7
    assert sync.rows("a")[3]["c"] == 8
    assert sorted(sync.rows("a")) == [2, 3]
