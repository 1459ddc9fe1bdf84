"""XA transactions that are prepared when a pipeline begins, and their commits, which the log has without rows."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from penstock.ingest.mysql.errors import UnsupportedBinlogEvent
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync


def prepare(server: Playground, name: str, statement: str) -> None:
    """Prepare on a connection of its own: MySQL keeps it prepared when the connection ends, MariaDB since 10.5."""
    connection = server.connect(database=DATABASE)
    with connection, connection.cursor() as cursor:
        for step in (f"XA START '{name}'", statement, f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(step)


def sync_of(server: Playground, folder: Path, *flags: str) -> Sync:
    return Sync(server, folder, "t", ["table-name=t"], flags)


def test_a_commit_of_a_transaction_that_was_prepared_before_the_first_start_stops_the_pipeline(
    server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    prepare(server, "before", "INSERT INTO t VALUES (50)")
    sync_of(server, tmp_path).run()
    server.run("XA COMMIT 'before'", "INSERT INTO t VALUES (2)")
    for _ in range(2):
        with pytest.raises(UnsupportedBinlogEvent, match="prepared before the pipeline began"):
            sync_of(server, tmp_path).run()
    with caplog.at_level(logging.WARNING):
        accepting = sync_of(server, tmp_path, "--accept-gap")
        accepting.run()
    assert accepting.ids() == [1, 2]
    assert "event=xa_rows_may_be_missing" in caplog.text
    again = sync_of(server, tmp_path, "--resnapshot")
    again.run()
    assert again.ids() == [1, 2, 50]


def test_transactions_of_other_tables_may_be_prepared_and_committed_in_two_batches(
    server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    prepare(server, "never committed", "INSERT INTO other VALUES (50)")
    sync = sync_of(server, tmp_path)
    sync.run()
    for number, end in enumerate(("COMMIT", "ROLLBACK", "COMMIT")):
        prepare(server, "x", f"INSERT INTO other VALUES ({number})")
        server.run(f"INSERT INTO t VALUES ({number})")
        sync.run()
        server.run(f"XA {end} 'x'", f"INSERT INTO t VALUES ({number + 10})")
        sync.run()
    server.run("XA START 'y'", "INSERT INTO other VALUES (20)", "XA END 'y'", "XA COMMIT 'y' ONE PHASE")
    server.run("XA ROLLBACK 'never committed'", "INSERT INTO t VALUES (30)")
    sync.run()
    assert sync.ids() == [0, 1, 2, 10, 11, 12, 30]
    assert "event=xa_rows_may_be_missing" not in caplog.text
