"""Failures caused by the server: WAL that is removed before it was read, and a server that is killed."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres import read_range
from penstock.ingest.postgres.errors import SlotAhead, SlotLost
from penstock.ingest.postgres.server.connection import PgConnection
from penstock.ingest.postgres.server.slot import SlotFacts, readable_slot
from tests.here import note_as_spark_does, run
from tests.integration.postgres.sync import SLOT, PgPlayground, PgSync
from tests.servers.launch import running, start
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
CONFIRMED = f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{SLOT}'"


@pytest.fixture(scope="module")
def own_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def own_port(own_folder: Path) -> Iterator[int]:
    with running("postgres", own_folder) as port:
        yield port


@pytest.fixture
def own(own_port: int) -> PgPlayground:
    """A server for this file alone, because its tests kill it and change its settings."""
    found = PgPlayground(own_port)
    found.start_over()
    found.create("t", "id int PRIMARY KEY, n int")
    found.run("INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i")
    return found


def lose_slot(server: PgPlayground) -> None:
    server.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    for number in range(4):
        server.run(f"UPDATE t SET n = n + 1 WHERE id = {number + 1}", "SELECT pg_switch_wal()")
    status = f"SELECT wal_status FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
    # The process that writes checkpoints reads the new setting when it comes to it.
    until(lambda: [server.run("CHECKPOINT"), server.run(status)][1] == "lost", "the loss of the slot")
    server.run("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


def equal(sync: PgSync) -> bool:
    mine = sorted((row["id"], row["n"]) for row in sync.rows("t").values())
    theirs = sync.server.run("SELECT id, n FROM t ORDER BY id").splitlines()
    assert {name: verdict.is_equal for name, verdict in sync.verified().items()} == {"t": True}
    return [f"{key}|{n}" for key, n in mine] == theirs


def test_lost_slot_is_named_and_replaced_when_tables_are_read_again(own: PgPlayground, tmp_path: Path) -> None:
    sync = PgSync(own, tmp_path)
    sync.run()
    lose_slot(own)
    with pytest.raises(SlotLost) as caught:
        sync.run()
    assert caught.value.exit_code == 4
    assert (caught.value.facts["slot"], caught.value.facts["max_slot_wal_keep_size"]) == (SLOT, "-1")
    assert "--resnapshot" in (caught.value.hint or "")
    sync.flags = ["--resnapshot"]
    sync.run()
    sync.flags = []
    own.run("DELETE FROM t WHERE id = 7")
    sync.run()
    assert equal(sync)


def test_slot_lost_after_planning_is_replaced_too(own: PgPlayground, tmp_path: Path) -> None:
    sync = PgSync(own, tmp_path)
    sync.run()

    class _StopError(Exception):
        pass

    def stop(*_: object) -> None:
        raise _StopError

    own.run("UPDATE t SET n = 5 WHERE id = 5")
    with pytest.raises(_StopError):
        sync.run(stop)
    lose_slot(own)
    # The batch is in the checkpoint, and can never be read again.
    with pytest.raises(SlotLost):
        sync.run()
    sync.flags = ["--resnapshot"]
    sync.run()
    assert equal(sync)


def test_lost_slot_is_replaced_at_once_if_the_pipeline_says_so(own: PgPlayground, tmp_path: Path) -> None:
    sync = PgSync(own, tmp_path)
    sync.run()
    lose_slot(own)
    spec = sync.spec
    run(spec.model_copy(update={"errors": spec.errors.model_copy(update={"position_lost": "resnapshot"})}))
    note_as_spark_does(tmp_path / "checkpoint")
    assert equal(sync)


def test_a_slot_that_something_else_moves_while_a_task_waits_for_it_is_reported(
    own: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = PgSync(own, tmp_path)
    sync.run()
    own.run("UPDATE t SET n = 5 WHERE id = 5", "UPDATE t SET n = 6 WHERE id = 6")

    def other_reader_ends(connection: PgConnection, slot: str, seen: SlotFacts | None, start: int) -> SlotFacts:
        found = readable_slot(connection, slot, seen, start)
        own.run(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
        own.run("UPDATE t SET n = 7 WHERE id = 7")
        return found

    monkeypatch.setattr(read_range, "readable_slot", other_reader_ends)
    with pytest.raises(SlotAhead, match="read by something else"):
        sync.run()
    assert {sync.rows("t")[key]["n"] for key in (5, 6, 7)} == {0}


def test_killed_server_loses_and_repeats_nothing(own: PgPlayground, own_folder: Path, tmp_path: Path) -> None:
    sync = PgSync(own, tmp_path, conf=["scan.incremental.snapshot.chunk.size=100"], flags=["--max-batch-rows", "200"])
    batches = 0
    starts: list[Future[None]] = []

    def kill(*_: object) -> None:
        nonlocal batches
        batches += 1
        if batches == 2:
            own.run("UPDATE t SET n = n + 1 WHERE id % 3 = 0", "DELETE FROM t WHERE id % 100 = 1")
            lock = own_folder / "data" / "postmaster.pid"
            os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
            # A killed process that nobody has reaped still exists, and the next server would refuse to start because
            # of its lock files: that of the data, and that of the socket.
            for file in (lock, *own_folder.glob(".s.PGSQL.*.lock")):
                file.unlink()
            starts.append(threads.submit(back))

    def back() -> None:
        time.sleep(1)
        start("postgres", own_folder, own.port)

    with ThreadPoolExecutor(1) as threads:
        for _ in range(3):
            try:
                sync.run(kill)
            except ConnectionLost:
                for started in starts:  # a slow machine may need longer for it than a run waits
                    started.result()
    for started in starts:
        started.result()
    own.run("INSERT INTO t VALUES (5000, 1)")
    sync.run()
    assert batches > 3
    assert equal(sync)
    assert int(own.run(CONFIRMED)) > 0
