"""Partitions that are attached, detached, dropped or truncated: no change in the log has their rows."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.ingest.postgres.planner import PgPlanner
from penstock.ingest.postgres.read_range import PgRangeReading
from penstock.ingest.postgres.server import emptied_partitions
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


@pytest.mark.parametrize("follows", [True, False])
def test_a_partition_that_changed_while_it_was_detached_is_read_again(
    server: PgPlayground, tmp_path: Path, follows: bool
) -> None:
    server.create("t", "id int PRIMARY KEY, v int) PARTITION BY RANGE (id")
    server.run("CREATE TABLE p1 PARTITION OF t FOR VALUES FROM (0) TO (10)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path, "t", ["table-name=t"], ("--on-truncate", "delete-all") if follows else ())
    sync.run()
    server.run("ALTER TABLE t DETACH PARTITION p1", "UPDATE p1 SET v = 5 WHERE id = 1", "DELETE FROM p1 WHERE id = 2")
    server.run("INSERT INTO p1 VALUES (3, 3)", "ALTER TABLE t ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10)")
    server.run("INSERT INTO t VALUES (4, 4)")
    sync.run()
    sync.run()
    found = {key: row["v"] for key, row in sync.rows().items()}
    assert found == {1: 5, 3: 3, 4: 4} | ({} if follows else {2: 2})


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


@pytest.mark.parametrize("like", ["(LIKE t INCLUDING ALL)", "(id int PRIMARY KEY, a int)"])
def test_a_partition_that_is_made_filled_and_attached_at_once_is_read(
    server: PgPlayground, tmp_path: Path, like: str
) -> None:
    sync = begin(server, tmp_path)
    attach = "ALTER TABLE t ATTACH PARTITION p7 FOR VALUES FROM (70) TO (80)"
    server.run(f"BEGIN; CREATE TABLE p7 {like}; INSERT INTO p7 VALUES (71, 1); {attach}; COMMIT")
    server.run("INSERT INTO t VALUES (72, 2)")
    settle(sync)
    assert sorted(sync.rows("t")) == [1, 11, 71, 72]


MADE = "CREATE TABLE p2 PARTITION OF t FOR VALUES FROM (20) TO (30)"
TRUNCATED = {
    "one": (("TRUNCATE p0",), [11, 12]),
    "new": (
        (MADE, "INSERT INTO t VALUES (21, 1)", "TRUNCATE p2"),
        [1, 2, 11, 12],
    ),
    "new, at once": ((f"BEGIN; {MADE}; INSERT INTO t VALUES (21, 1); TRUNCATE p2; COMMIT",), [1, 2, 11, 12]),
    "new, filled again": (
        (f"BEGIN; {MADE}; INSERT INTO t VALUES (21, 1); TRUNCATE p2; INSERT INTO t VALUES (22, 1); COMMIT",),
        [1, 2, 11, 12, 22],
    ),
    "new, in a part of a transaction": (
        (f"BEGIN; SAVEPOINT a; {MADE}; INSERT INTO t VALUES (21, 1); TRUNCATE p2; RELEASE a; COMMIT",),
        [1, 2, 11, 12],
    ),
    "filled again": (("TRUNCATE p0", "INSERT INTO t VALUES (3, 3)", "ANALYZE t", "VACUUM FULL p0"), [3, 11, 12]),
    "one of others": (('CREATE TABLE "x, y" (id int)', 'TRUNCATE p0, "x, y"'), [11, 12]),
    "renamed": (("TRUNCATE p0", "ALTER TABLE p0 RENAME TO q0"), [11, 12]),
}


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("case", TRUNCATED)
def test_truncate_of_a_partition_is_followed_or_counted(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str, follows: bool
) -> None:
    sync = begin(server, tmp_path, *(("--on-truncate", "delete-all") if follows else ()))
    statements, left = TRUNCATED[case]
    server.run("INSERT INTO t VALUES (2, 2)", *statements, "INSERT INTO t VALUES (12, 2)")
    with caplog.at_level(logging.WARNING):
        counted = settle(sync)
    assert (sorted(sync.rows("t")) == left) is follows
    assert counted["messages.rows-moved"] == (0 if follows else 1)
    assert ("event=truncate_not_followed table=public.t partitions=public." in caplog.text) is not follows
    assert server.run("SELECT count(*) FROM pg_replication_slots") == "1"


@pytest.mark.parametrize("case", ["VACUUM FULL p0", "CLUSTER p0 USING p0_pkey", "TRUNCATE t"])
def test_other_new_files_of_partitions_are_no_truncate_of_one(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    sync = begin(server, tmp_path, "--on-truncate", "delete-all")
    before = sync.target("t").latest_snapshot
    server.run(case)
    caplog.clear()  # The first batches have lines of the same event.
    with caplog.at_level(logging.INFO):
        settle(sync)
    assert sorted(sync.rows("t")) == ([] if case == "TRUNCATE t" else [1, 11])
    assert "event=definitions_changed" not in caplog.text
    assert (sync.target("t").latest_snapshot == before) is (case != "TRUNCATE t")


def test_new_files_of_partitions_are_reported_if_the_server_lacks_the_decoder(
    server: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sync = begin(server, tmp_path, "--on-truncate", "delete-all")
    monkeypatch.setattr(emptied_partitions, "_PLUGIN", "no_such_plugin")
    server.run("TRUNCATE p0")
    with caplog.at_level(logging.WARNING):
        counted = settle(sync)
    assert "event=partitions_rewritten table=public.t partitions=public.p0" in caplog.text
    assert "--reset TABLE" in caplog.text
    assert counted["messages.rows-moved"] == 1


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


GONE = {
    "drop": (MADE, "INSERT INTO t VALUES (21, 1), (22, 1)", "DROP TABLE p2"),
    "detach": (MADE, "INSERT INTO t VALUES (21, 1)", "ALTER TABLE t DETACH PARTITION p2"),
    "at once": (f"BEGIN; {MADE}; INSERT INTO t VALUES (21, 1); COMMIT", "DROP TABLE p2"),
    "before another": (
        MADE,
        "INSERT INTO t VALUES (21, 1)",
        "DROP TABLE p2",
        "CREATE TABLE p3 PARTITION OF t FOR VALUES FROM (30) TO (40)",
    ),
    "replaced": (MADE, "INSERT INTO t VALUES (21, 1)", "DROP TABLE p2", MADE),
}


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("case", GONE)
def test_rows_of_a_partition_that_was_made_and_removed_are_followed_or_counted(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str, follows: bool
) -> None:
    sync = begin(server, tmp_path, *(("--on-truncate", "delete-all") if follows else ()))
    server.run("INSERT INTO t VALUES (2, 2)", *GONE[case], "INSERT INTO t VALUES (12, 2)")
    with caplog.at_level(logging.WARNING):
        counted = settle(sync)
    assert ({21, 22} & sync.rows("t").keys() == set()) is follows
    assert {1, 2, 11, 12} <= sync.rows("t").keys()
    assert counted["messages.rows-moved"] == (0 if follows else 1)
    assert ("event=rows_moved_unlogged table=public.t" in caplog.text) is not follows
    assert "partitions=public.p2" in caplog.text or follows


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("before", [PgPlanner._with_log, PgRangeReading._log])
def test_a_partition_that_leaves_during_a_batch_is_reported_once(
    server: PgPlayground,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    before: Any,
    follows: bool,
) -> None:
    sync = begin(server, tmp_path, *(("--on-truncate", "delete-all") if follows else ()))
    server.run(MADE, "INSERT INTO t VALUES (2, 2), (21, 1)")
    leaves = ["DROP TABLE p2"]

    def after_it_left(*arguments: Any) -> Any:
        while leaves:
            server.run(leaves.pop())
        return before(*arguments)

    monkeypatch.setattr(PgPlanner if before is PgPlanner._with_log else PgRangeReading, before.__name__, after_it_left)
    with caplog.at_level(logging.WARNING):
        counted = settle(sync)
    assert not leaves
    assert sorted(sync.rows("t")) == ([1, 2, 11] if follows else [1, 2, 11, 21])
    assert counted["messages.rows-moved"] == (0 if follows else 1)
    assert caplog.text.count("event=rows_moved_unlogged table=public.t") == (0 if follows else 1)


@pytest.mark.parametrize("follows", [True, False])
def test_a_partition_that_left_is_reported_once_though_the_log_is_far_behind(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, follows: bool
) -> None:
    sync = begin(server, tmp_path, *(("--on-truncate", "delete-all") if follows else ()))
    for number in range(3, 9):
        server.run(f"INSERT INTO t VALUES ({number}, 7)", "SELECT pg_switch_wal()")
    server.run("DROP TABLE p0", "INSERT INTO t VALUES (12, 2)")
    caplog.clear()  # The first batches have lines of the same event.
    small = PgSync(server, tmp_path, flags=(*sync.flags, "--max-batch-bytes", "16mb"))
    with caplog.at_level(logging.INFO):
        counted = settle(small)
    assert sorted(sync.rows("t")) == ([11, 12] if follows else [1, *range(3, 9), 11, 12])
    assert counted["messages.rows-moved"] == (0 if follows else 1)
    assert caplog.text.count("event=definitions_changed") == 1


def test_partitions_that_are_still_there_are_no_reason_to_report(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sync = begin(server, tmp_path)
    server.run(MADE, "INSERT INTO t VALUES (21, 1), (2, 2), (12, 2)", "ALTER TABLE p2 RENAME TO q2")
    server.run("CREATE TABLE p3 PARTITION OF t FOR VALUES FROM (30) TO (40) PARTITION BY RANGE (id)")
    server.run("CREATE TABLE p31 PARTITION OF p3 FOR VALUES FROM (31) TO (32)", "INSERT INTO t VALUES (31, 1)")
    with caplog.at_level(logging.WARNING):
        counted = settle(sync)
    assert sorted(sync.rows("t")) == [1, 2, 11, 12, 21, 31]
    assert counted["messages.rows-moved"] == 0
    assert "event=rows_moved_unlogged" not in caplog.text


def test_rows_of_a_removed_partition_whose_name_is_captured_are_not_reported_as_left_out(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(server, tmp_path)
    sync = PgSync(server, tmp_path, flags=("--excluding-tables", "p9"))
    server.run(MADE, "INSERT INTO t VALUES (21, 1)", "DROP TABLE p2")
    with caplog.at_level(logging.WARNING):
        counted = settle(sync)
    assert 21 in sync.rows("t")
    assert counted["messages.rows-moved"] == 1
    assert "event=rows_of_dropped_table_left_out" not in caplog.text
    assert counted["messages.dropped-table"] == 0
