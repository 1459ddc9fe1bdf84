"""deletes: history, from a PostgreSQL server: rows of the first copy, then each change of them, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.postgres.sync import PgPlayground, PgSync

pytestmark = pytest.mark.postgres
HISTORY = ["--deletes", "history", "--table_conf", "bucket=2"]


def versions(sync: PgSync) -> dict[int, list[tuple[str, bool]]]:
    rows = sorted(
        sync.target("t").scan().to_arrow().to_pylist(), key=lambda row: (row["is_current"], row["_end_position"])
    )
    found: dict[int, list[tuple[str, bool]]] = {}
    for row in rows:
        assert (row["valid_to"] is None) == row["is_current"]
        found.setdefault(row["id"], []).append((row["v"], row["is_current"]))
    return found


def test_versions_of_rows_that_are_copied_and_then_change(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id INT PRIMARY KEY, v TEXT")
    server.run("ALTER TABLE t REPLICA IDENTITY FULL")
    server.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    sync = PgSync(server, tmp_path, flags=HISTORY)
    # A change while the pipeline runs, which the log has after the copy.
    done = []

    def change_once(*_: object) -> None:
        if not done:
            done.append(True)
            server.run("UPDATE t SET v = 'x' WHERE id = 1")

    sync.run(on_batch=change_once)
    server.run(
        "UPDATE t SET v = 'y' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (2, 'again')",
        "UPDATE t SET id = 30 WHERE id = 3",
    )
    sync.run()
    assert versions(sync) == {
        1: [("a", False), ("x", False), ("y", True)],
        2: [("b", False), ("again", True)],
        3: [("c", False)],
        30: [("c", True)],
    }
    verdict = sync.verified()["t"]
    assert verdict.is_equal
    assert (verdict.source_rows, verdict.table_rows) == (3, 3)


def test_a_table_that_is_read_again_gets_versions_only_for_what_differs(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id INT PRIMARY KEY, v TEXT")
    server.run("ALTER TABLE t REPLICA IDENTITY FULL")
    server.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    PgSync(server, tmp_path, flags=HISTORY).run()
    server.run("UPDATE t SET v = 'x' WHERE id = 1")
    sync = PgSync(server, tmp_path, flags=[*HISTORY, "--reset", "ods.t"])
    sync.run()
    found = versions(sync)
    assert found[1][-1] == ("x", True)
    assert ("a", False) in found[1]
    assert found[2] == [("b", True)]
    assert sync.verified()["t"].is_equal
