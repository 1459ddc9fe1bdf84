"""A checkpoint that is lost: a new one begins at the position of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mongodb.sync import MongoPlayground, MongoSync


@pytest.mark.mongodb
@pytest.mark.parametrize("table", ["t", None], ids=["table sync", "database sync"])
def test_a_new_checkpoint_continues_at_the_position_of_the_tables(
    server: MongoPlayground, tmp_path: Path, table: str | None
) -> None:
    server.db["t"].insert_many([{"_id": "a", "v": 1}, {"_id": "b", "v": 2}])
    sync = MongoSync(server, tmp_path, table)
    sync.run()
    server.db["t"].update_one({"_id": "a"}, {"$set": {"v": 5}})
    server.db["t"].delete_one({"_id": "b"})
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    MongoSync(server, tmp_path, table, flags=["--resume-from-tables"]).run()
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {"a": "5"}
    server.db["t"].insert_one({"_id": "c", "v": 3})
    sync.run()
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {"a": "5", "c": "3"}
    assert not [snapshot for snapshot in sync.target("t").snapshots if snapshot.commit_kind == "OVERWRITE"]
