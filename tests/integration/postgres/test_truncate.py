"""TRUNCATE at the source: not followed by default, followed in the order of the log if wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from tests.integration.postgres.sync import PgPlayground, PgSync

pytestmark = pytest.mark.postgres


def tables(server: PgPlayground) -> None:
    for name in ("t", "u"):
        server.create(name, "id int PRIMARY KEY, n int")
        server.run(f"INSERT INTO {name} SELECT i, 0 FROM generate_series(1, 10) i")


def content(sync: PgSync, name: str) -> dict[int, int]:
    return {key: row["n"] for key, row in sync.rows(name).items()}


def test_rows_stay_unless_truncate_is_followed(server: PgPlayground, tmp_path: Path) -> None:
    tables(server)
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("TRUNCATE t", "INSERT INTO t VALUES (100, 1)")
    sync.run()
    assert set(content(sync, "t")) == {*range(1, 11), 100}


def test_tables_are_emptied_between_the_changes_before_and_after(server: PgPlayground, tmp_path: Path) -> None:
    tables(server)
    sync = PgSync(server, tmp_path, flags=["--on-truncate", "delete-all"])
    sync.run()
    server.run(
        "UPDATE t SET n = 1",
        "BEGIN; INSERT INTO t VALUES (20, 2); INSERT INTO u VALUES (20, 2); TRUNCATE t; INSERT INTO t VALUES (21, 3); "
        "UPDATE u SET n = 4 WHERE id = 1; COMMIT",
        "INSERT INTO t VALUES (22, 5)",
        "BEGIN; TRUNCATE u; ROLLBACK",
    )
    sync.run()
    assert content(sync, "t") == {21: 3, 22: 5}
    assert content(sync, "u") == {**dict.fromkeys(range(1, 11), 0), 1: 4, 20: 2}
    server.run("TRUNCATE t, u", "INSERT INTO t VALUES (1, 1)", "TRUNCATE t", "INSERT INTO u VALUES (2, 2)")
    sync.run()
    assert (content(sync, "t"), content(sync, "u")) == ({}, {2: 2})
    assert {verdict.is_equal for verdict in sync.verified().values()} == {True}


def test_truncate_during_the_snapshot_keeps_the_rows_after_it(server: PgPlayground, tmp_path: Path) -> None:
    tables(server)
    sync = PgSync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=3"])
    sync.flags = ["--on-truncate", "delete-all", "--max-batch-rows", "3"]
    turns = 0

    def empty(*_: object) -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            server.run("TRUNCATE t", "INSERT INTO t VALUES (9, 9), (50, 50)")

    sync.run(empty)
    sync.run()
    assert content(sync, "t") == {9: 9, 50: 50}
    assert len(content(sync, "u")) == 10


def test_targets_of_several_tables_cannot_be_emptied_with_one(server: PgPlayground, tmp_path: Path) -> None:
    tables(server)
    sync = PgSync(server, tmp_path, "both", ["table-name=t|u"], ["--on-truncate", "delete-all"])
    with pytest.raises(ConfigError, match="cannot be emptied with one of them"):
        sync.run()
