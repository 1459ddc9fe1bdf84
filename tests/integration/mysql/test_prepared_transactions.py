"""XA transactions that are prepared when a pipeline begins, and their commits, which the log has without rows."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from penstock.ingest.mysql.errors import UnsupportedBinlogEvent
from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync
from tests.integration.mysql.test_lost_batches import purge


def prepare(server: Playground, name: str, statement: str) -> None:
    """Prepare on a connection of its own: MySQL keeps it prepared when the connection ends, MariaDB since 10.5."""
    connection = server.connect(database=DATABASE)
    with connection, connection.cursor() as cursor:
        for step in (f"XA START '{name}'", statement, f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(step)


def request_of(sync: Sync, table: str) -> None:
    CheckpointFolder(sync.spec.checkpoint).signal(f"{SNAPSHOT_REQUEST}1.json", (f"{DATABASE}.{table}",))


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


def test_a_commit_of_a_transaction_that_was_prepared_in_an_accepted_gap_stops_the_pipeline(
    server: Playground, tmp_path: Path
) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sync_of(server, tmp_path).run()
    prepare(server, "in the gap", "INSERT INTO t VALUES (50)")
    server.run("INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS")
    purge(server)
    server.run("INSERT INTO t VALUES (3)")
    sync_of(server, tmp_path, "--accept-gap").run()
    server.run("XA COMMIT 'in the gap'", "INSERT INTO t VALUES (4)")
    with pytest.raises(UnsupportedBinlogEvent, match="in a gap that was accepted"):
        sync_of(server, tmp_path).run()
    again = sync_of(server, tmp_path, "--resnapshot")
    again.run()
    assert again.ids() == [1, 2, 3, 4, 50]


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


def database_sync(server: Playground, folder: Path, *flags: str) -> Sync:
    return Sync(server, folder, None, ["scan.newly-added-table.enabled=true"], flags)


def test_rows_prepared_before_their_table_was_added_and_committed_after_it_was_read_are_not_lost(
    server: Playground, tmp_path: Path
) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    server.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    without = database_sync(server, tmp_path, "--excluding-tables", "u")
    without.run()
    prepare(server, "in time", "INSERT INTO u VALUES (40)")
    prepare(server, "late", "INSERT INTO u VALUES (50)")
    server.run("INSERT INTO t VALUES (2)")
    without.run()
    server.run("XA COMMIT 'in time'")
    both = database_sync(server, tmp_path)
    both.run()
    assert both.ids("u") == [1, 40]
    server.run("XA COMMIT 'late'", "INSERT INTO t VALUES (3)")
    with pytest.raises(UnsupportedBinlogEvent, match="before some tables were read") as caught:
        both.run()
    assert caught.value.facts["tables"] == f"{DATABASE}.u"
    request_of(both, "u")
    both.run()
    assert (both.ids("t"), both.ids("u")) == ([1, 2, 3], [1, 40, 50])


def test_rows_prepared_before_a_reset_and_committed_after_it_are_not_lost(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    sync = database_sync(server, tmp_path)
    sync.run()
    prepare(server, "x", "INSERT INTO u VALUES (50)")
    with pytest.raises(UnsupportedBinlogEvent, match="by an XA transaction"):
        sync.run()
    database_sync(server, tmp_path, "--reset", "ods.u").run()
    server.run("XA COMMIT 'x'", "INSERT INTO t VALUES (3)")
    with pytest.raises(UnsupportedBinlogEvent, match="before some tables were read"):
        sync.run()
    database_sync(server, tmp_path, "--reset", "ods.u").run()
    assert (sync.ids("t"), sync.ids("u")) == ([3], [50])


def test_a_name_that_is_used_again_is_another_transaction(server: Playground, tmp_path: Path) -> None:
    for name in ("t", "u", "other"):
        server.run(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    database_sync(server, tmp_path, "--excluding-tables", "u|other").run()
    prepare(server, "x", "INSERT INTO other VALUES (1)")
    server.run("INSERT INTO t VALUES (1)")
    database_sync(server, tmp_path, "--excluding-tables", "u|other").run()
    sync = database_sync(server, tmp_path, "--excluding-tables", "other")
    sync.run()
    server.run("XA ROLLBACK 'x'")
    prepare(server, "x", "INSERT INTO other VALUES (2)")
    server.run("INSERT INTO t VALUES (2)")
    sync.run()
    server.run("XA COMMIT 'x'", "INSERT INTO t VALUES (3)")
    sync.run()
    assert sync.ids("t") == [1, 2, 3]


def test_exact_tables_are_read_beside_transactions_of_other_tables(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    server.run("INSERT INTO t VALUES " + ",".join(f"({number})" for number in range(200)))
    sync = Sync(
        server,
        tmp_path,
        "t",
        ["table-name=t", "scan.incremental.snapshot.chunk.size=50"],
        ["--table-conf", "changelog-producer=lookup", "--table-conf", "bucket=1"],
    )
    turns = iter(range(1000, 2000))

    def change(*_: object) -> None:
        number = next(turns)
        prepare(server, f"x{number}", f"INSERT INTO other VALUES ({number})")
        server.run(f"INSERT INTO t VALUES ({number})", f"XA {'COMMIT' if number % 2 else 'ROLLBACK'} 'x{number}'")

    sync.run(on_batch=change)
    sync.run()
    assert sync.ids() == [*range(200), *range(1000, next(turns))]
