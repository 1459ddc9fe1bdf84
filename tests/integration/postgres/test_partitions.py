"""Partitions that are attached, detached, dropped or truncated: no change in the log has their rows."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.postgres.sync import PgPlayground, PgSync

pytestmark = pytest.mark.postgres
OTHER = "CREATE TABLE p9 (id int PRIMARY KEY, a int)"
REMOVALS = {
    "detach": ("ALTER TABLE t DETACH PARTITION p0",),
    "drop": ("DROP TABLE p0",),
    "replace": ("DROP TABLE p0", "CREATE TABLE p0 PARTITION OF t FOR VALUES FROM (0) TO (10)"),
}


def begin(server: PgPlayground, tmp_path: Path, *flags: str) -> PgSync:
    server.create("t", "id int PRIMARY KEY, a int) PARTITION BY RANGE (id")
    for number in (0, 1):
        server.run(f"CREATE TABLE p{number} PARTITION OF t FOR VALUES FROM ({number}0) TO ({number + 1}0)")
    server.run(OTHER, "INSERT INTO t VALUES (1, 1), (11, 1)")
    sync = PgSync(server, tmp_path, flags=("--excluding-tables", "p.", *flags))
    sync.run()
    return sync


def settle(sync: PgSync) -> Counter[str]:
    """Run until nothing is left, and return what was passed over."""
    counted: Counter[str] = Counter()
    for _ in range(3):
        sync.run(on_batch=lambda _, report: counted.update(report.passed_over))
    return counted


def test_rows_of_an_attached_partition_are_read(server: PgPlayground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path)
    server.run("INSERT INTO p9 VALUES (91, 1)", "INSERT INTO t VALUES (2, 2)")
    server.run("ALTER TABLE t ATTACH PARTITION p9 FOR VALUES FROM (90) TO (99)", "INSERT INTO t VALUES (92, 2)")
    server.run("CREATE TABLE p7 (id int PRIMARY KEY, a int)", "INSERT INTO p7 VALUES (71, 1)")
    server.run("ALTER TABLE t ATTACH PARTITION p7 FOR VALUES FROM (70) TO (80)")
    settle(sync)
    assert sorted(sync.rows("t")) == [1, 2, 11, 71, 91, 92]
    assert sync.verified()["t"].is_equal


def test_a_partition_that_is_made_as_one_lets_nothing_be_read_again(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sync = begin(server, tmp_path)
    server.run("CREATE TABLE p2 PARTITION OF t FOR VALUES FROM (20) TO (30)", "INSERT INTO t VALUES (21, 2)")
    with caplog.at_level(logging.INFO):
        settle(sync)
    assert sorted(sync.rows("t")) == [1, 11, 21]
    assert "event=partitions_attached" not in caplog.text
    assert "event=rows_moved_unlogged" not in caplog.text


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("case", REMOVALS)
def test_rows_that_left_with_a_partition_are_followed_or_counted(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str, follows: bool
) -> None:
    sync = begin(server, tmp_path, *(("--on-truncate", "delete-all") if follows else ()))
    server.run("INSERT INTO t VALUES (2, 2)", *REMOVALS[case], "INSERT INTO t VALUES (12, 2)")
    with caplog.at_level(logging.WARNING):
        counted = settle(sync)
    assert sorted(sync.rows("t")) == ([11, 12] if follows else [1, 2, 11, 12])
    assert counted["messages.rows-moved"] == (0 if follows else 1)
    assert ("event=rows_moved_unlogged table=public.t" in caplog.text) is not follows
