"""Batches that were planned, and whose part of the binlog is gone before they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.ingest.mysql.errors import BinlogPurged
from tests.here import note_as_spark_does, run
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.integration.mysql.test_log_begun_again import begin_again, pipeline_of_a_new_log, plan_only
from tests.waiting import until

pytestmark = pytest.mark.slow


def run_with_resnapshot(sync: Sync) -> None:
    spec = sync.spec
    run(spec.model_copy(update={"errors": spec.errors.model_copy(update={"position_lost": "resnapshot"})}))
    note_as_spark_does(Path(spec.checkpoint))


def purge(server: Playground) -> None:
    """Purge all files but the last one. MariaDB keeps a file for as long as the end of a reader is not noticed."""

    def purged() -> bool:
        server.run(f"PURGE BINARY LOGS TO '{server.here().file}'")
        return len(server.rows("SHOW BINARY LOGS")) == 1

    until(purged, "the end of the former files")


@pytest.mark.parametrize("rest", ["all of it", "its end is there"])
def test_a_planned_batch_that_was_purged_lets_the_tables_be_read_again(
    server: Playground, tmp_path: Path, rest: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, owner VARCHAR(9))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    server.run("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("DELETE FROM t WHERE id = 1", "INSERT INTO u VALUES (2)", "FLUSH BINARY LOGS")
    plan_only(server, sync)  # of both files
    if rest == "all of it":
        server.run("FLUSH BINARY LOGS")
    purge(server)
    with pytest.raises(BinlogPurged):
        sync.run()
    run_with_resnapshot(sync)
    assert caplog.text.count("event=position_lost") >= 1
    assert sync.ids("t") == [2, 6]
    assert sync.ids("u") == [1, 2]
    server.run("INSERT INTO u VALUES (3)")
    emptied = caplog.text.count("event=table_emptied")
    run_with_resnapshot(sync)
    assert caplog.text.count("event=table_emptied") == emptied  # once
    assert sync.ids("u") == [1, 2, 3]
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []


def test_a_planned_batch_of_a_former_log_lets_the_tables_be_read_again(server: Playground, tmp_path: Path) -> None:
    sync = pipeline_of_a_new_log(server, tmp_path)
    plan_only(server, sync)
    begin_again(server)
    run_with_resnapshot(sync)
    assert sync.ids("t") == [3, 4, 5, 6, 7, 8]
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
