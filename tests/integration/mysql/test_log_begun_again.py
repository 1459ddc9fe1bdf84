"""A log that began again on the same server, and has the same names, positions and GTIDs for other transactions."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.ingest.mysql.binlog.log_plan import PlanLimits
from penstock.ingest.mysql.errors import BinlogReset
from tests.here import note_as_spark_does, run
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

pytestmark = pytest.mark.slow


class _StopError(Exception):
    pass


def fill(server: Playground, first: int, owner: str) -> None:
    rows = [f"INSERT INTO t VALUES ({number}, '{owner}')" for number in range(first, first + 5)]
    server.run("CREATE TABLE t (id INT PRIMARY KEY, owner VARCHAR(9))", *rows)


def reset(server: Playground, second: int = 0) -> None:
    """Begin the log again; with `second` as if at this time."""
    statement = "RESET MASTER" if server.is_mariadb else "RESET BINARY LOGS AND GTIDS"
    if not second:
        time.sleep(1.1)  # the time at which a file was begun is in seconds
    server.run("SET sql_log_bin = 0", "DROP TABLE IF EXISTS t", "SET sql_log_bin = 1")
    server.run(f"SET timestamp = {second or 'DEFAULT'}", statement, "SET timestamp = DEFAULT")


def pipeline_of_a_new_log(server: Playground, folder: Path, second: int = 0) -> Sync:
    """Return a pipeline that has read rows 1 to 5, which are all rows of the log."""
    reset(server, second)
    fill(server, 1, "aaa")
    sync = Sync(server, folder)
    sync.run()
    return sync


def begin_again(server: Playground, second: int = 0) -> None:
    """Begin the log again. Rows 3 to 8 have as many bytes as rows 1 to 6 of the former log."""
    reset(server, second)
    fill(server, 3, "bbb")
    server.run("INSERT INTO t VALUES (8, 'bbb')")


def begin_again_with_the_same_length(server: Playground, sync: Sync, second: int = 0) -> None:
    """Let the pipeline read row 6, and begin the log again with the same positions and GTIDs."""
    server.run("INSERT INTO t VALUES (6, 'aaa')")
    sync.run()
    read = server.here()
    begin_again(server, second)
    assert (server.here().file, server.here().pos, server.here().gtid) == (read.file, read.pos, read.gtid)
    server.run("INSERT INTO t VALUES (9, 'bbb')")


def plan_only(server: Playground, sync: Sync) -> None:
    """Let the pipeline plan a batch with row 6, and stop before it is read."""
    server.run("INSERT INTO t VALUES (6, 'aaa')")

    def stopped(*_: object) -> None:
        raise _StopError

    with pytest.raises(_StopError):
        sync.run(stopped)


def assert_the_log_is_another_one(sync: Sync, message: str = "other events") -> None:
    with pytest.raises(BinlogReset, match=message) as caught:
        sync.run()
    assert caught.value.exit_code == 4


def test_a_log_that_is_as_long_again_is_not_continued(server: Playground, tmp_path: Path) -> None:
    sync = pipeline_of_a_new_log(server, tmp_path)
    begin_again_with_the_same_length(server, sync)
    assert_the_log_is_another_one(sync, "begun at another time")
    spec = sync.spec
    run(spec.model_copy(update={"errors": spec.errors.model_copy(update={"position_lost": "resnapshot"})}))
    note_as_spark_does(Path(spec.checkpoint))
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    assert sync.ids("t") == [3, 4, 5, 6, 7, 8, 9]


def test_a_planned_batch_of_the_former_log_is_not_read(server: Playground, tmp_path: Path) -> None:
    sync = pipeline_of_a_new_log(server, tmp_path)
    plan_only(server, sync)
    begin_again(server)
    assert_the_log_is_another_one(sync, "begun at another time")


SECOND = 1_790_000_000


def test_a_log_that_was_begun_in_the_same_second_is_not_continued(server: Playground, tmp_path: Path) -> None:
    sync = pipeline_of_a_new_log(server, tmp_path, SECOND)
    begin_again_with_the_same_length(server, sync, SECOND)
    for _ in range(2):
        assert_the_log_is_another_one(sync)
    sync.flags = ["--resnapshot"]
    sync.run()
    assert sync.ids("t") == [3, 4, 5, 6, 7, 8, 9]


def test_a_log_of_which_only_the_end_was_known_is_not_continued(server: Playground, tmp_path: Path) -> None:
    sync = pipeline_of_a_new_log(server, tmp_path, SECOND)
    begin_again(server, SECOND)
    assert_the_log_is_another_one(sync)


def test_a_planned_batch_of_a_log_begun_in_the_same_second_is_not_read(server: Playground, tmp_path: Path) -> None:
    sync = pipeline_of_a_new_log(server, tmp_path, SECOND)
    plan_only(server, sync)
    begin_again(server, SECOND)
    assert_the_log_is_another_one(sync)


def test_a_plan_does_not_continue_in_a_log_with_other_events(server: Playground) -> None:
    reset(server, SECOND)
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    start = server.here()
    server.run(*[f"INSERT INTO t VALUES ({number}, 'aaa')" for number in range(5)])
    (plan,) = server.plans(start, PlanLimits())
    # The log goes on, and the plan with it.
    server.run("INSERT INTO t VALUES (7, 'aaa')")
    (same,) = server.plans(plan.end, PlanLimits())
    assert plan.end.sample is not None
    assert plan.end.sample.last == plan.end.pos == same.ranges[0].start
    (empty,) = server.plans(same.end, PlanLimits())
    assert (empty.ranges, empty.end.sample) == ((), same.end.sample)
    reset(server, SECOND)
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    server.run(*[f"INSERT INTO t VALUES ({number}, 'bbb')" for number in range(9)])
    first = plan.end.sample.first
    earlier = replace(plan.end, sample=replace(plan.end.sample, last=first + (plan.end.pos - first) // 2))
    for position in (plan.end, same.end, replace(plan.end, begun=0), earlier):
        with pytest.raises(BinlogReset):
            server.plans(position, PlanLimits())
    with pytest.raises(BinlogReset):
        server.read([plan])
