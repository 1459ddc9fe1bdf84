"""Whether a bounded run over PostgreSQL has nothing to do, asked of a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipelines.job import build
from penstock.pipelines.job.idle_run import idle_run
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.integration.postgres.sync import SLOT, PgPlayground, PgSync

pytestmark = pytest.mark.postgres


def is_idle(sync: PgSync) -> bool:
    return idle_run(build.ready(sync.spec), CheckpointFolder(sync.spec.checkpoint)) is not None


def confirmed(server: PgPlayground) -> str:
    return server.run(f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{SLOT}'")


def test_a_run_is_idle_until_rows_arrive_or_the_slot_has_to_move(server: PgPlayground, tmp_path: Path) -> None:
    server.create("a", "id int PRIMARY KEY")
    server.create("other", "id int PRIMARY KEY")
    server.run("INSERT INTO a VALUES (1)")
    sync = PgSync(server, tmp_path, "a", ["table-name=a"])
    sync.run()
    while not is_idle(sync):  # the log has to pass the instant at which the rows were read
        sync.run()
    before = confirmed(server)
    assert is_idle(sync)
    assert confirmed(server) == before
    server.run("INSERT INTO a VALUES (2)")
    assert not is_idle(sync)
    sync.run()
    assert sorted(sync.rows("a")) == [1, 2]
    # The server keeps its log until a batch has moved the position of the slot, so Spark has to run.
    server.run("INSERT INTO other SELECT generate_series(1, 1000)")
    assert not is_idle(sync)
    sync.run()
    assert confirmed(server) != before
