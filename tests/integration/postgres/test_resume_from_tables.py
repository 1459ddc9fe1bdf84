"""A checkpoint that is lost: a new one begins at the position of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.postgres.sync import PgPlayground, PgSync


@pytest.mark.postgres
def test_a_new_checkpoint_continues_at_the_position_of_the_tables(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v int")
    server.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("UPDATE t SET v = 5 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    PgSync(server, tmp_path, flags=["--resume-from-tables"]).run()
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 5}
    server.run("INSERT INTO t VALUES (3, 3)")
    sync.run()
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 5, 3: 3}
    assert not [snapshot for snapshot in sync.target("t").snapshots if snapshot.commit_kind == "OVERWRITE"]
