"""Transactions and statements of others that last long: nothing that does not need their end waits for it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from penstock.errors import SourceError
from penstock.ingest.mysql.binlog import server_positions
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server import connection
from penstock.ingest.mysql.server.refusals import LOCK_WAIT_S
from penstock.ingest.mysql.snapshot import chunk_as_of
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

KEYLESS = ["--include-keyless", "append"]


@pytest.fixture
def new_database(mysql: Playground) -> None:
    mysql.start_over()


@contextmanager
def applied_by_a_replica(server: Playground) -> Iterator[None]:
    """A transaction that has its GTID from its beginning, as those that a replica applies, and does not end."""
    other = server.connect(database=DATABASE)
    try:
        with other.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS bulk (id INT PRIMARY KEY)")
            cursor.execute(f"SET gtid_next = '{uuid.uuid4()}:1'")
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO bulk VALUES (1)")
            yield
            cursor.execute("COMMIT")
    finally:
        other.close()


@pytest.mark.mysql
@pytest.mark.usefixtures("new_database")
def test_a_transaction_that_a_replica_applies_for_long_delays_nothing(
    mysql: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE k (id INT)")
    sync = Sync(mysql, tmp_path / "old", flags=KEYLESS)
    new = Sync(mysql, tmp_path / "new", flags=KEYLESS)
    sync.run()
    with applied_by_a_replica(mysql):
        mysql.run("INSERT INTO t VALUES (1)", "INSERT INTO k VALUES (1)")
        monkeypatch.setattr(server_positions, "_SETTLE_S", 3600)  # whoever waits does so for longer than a test may
        for pipeline in (sync, new):
            pipeline.run()
            assert (pipeline.ids("t"), pipeline.ids("k")) == ([1], [1])
    for pipeline in (sync, new):
        pipeline.run()
        assert pipeline.ids("bulk") == [1]


@contextmanager
def commits_without_replicas(server: Playground) -> Iterator[threading.Event]:
    """Commits wait for a replica that is not there: they are in the binlog, and not shown by SELECT until the event."""
    name = "rpl_semi_sync_master" if server.is_mariadb else "rpl_semi_sync_source"
    if not server.is_mariadb and not server.rows(
        f"SELECT 1 FROM information_schema.plugins WHERE plugin_name = '{name}'"
    ):
        server.run(f"INSTALL PLUGIN {name} SONAME 'semisync_source.so'")
    released, control = threading.Event(), Playground(server.flavour, server.port)
    control.run(
        f"SET GLOBAL {name}_wait_point = 'AFTER_SYNC'",
        f"SET GLOBAL {name}_timeout = 3600000",
        f"SET GLOBAL {name}_enabled = ON",
    )

    def release() -> None:
        released.wait()
        control.run(f"SET GLOBAL {name}_enabled = OFF")

    thread = threading.Thread(target=release)
    thread.start()
    try:
        yield released
    finally:
        released.set()
        thread.join()


def test_a_commit_that_waits_for_a_replica_is_streamed_and_never_undone_by_a_copy(
    server: Playground, tmp_path: Path
) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    sync = Sync(server, tmp_path)
    sync.run()
    writer = Playground(server.flavour, server.port)
    writer.run(f"USE {DATABASE}")
    before = server.here()
    with commits_without_replicas(server) as released:
        update = threading.Thread(target=writer.run, args=("UPDATE t SET v = 2 WHERE id = 1",))
        update.start()
        while not before.is_before(server.here()):
            time.sleep(0.05)
        sync.run()
        assert [row["v"] for row in sync.rows("t")] == [2]
        assert server.rows("SELECT v FROM t") == ((1,),)
        threading.Timer(2.0, released.set).start()
        sync.flags = ["--reset", "ods.t"]
        sync.run()
        update.join()
    assert [row["v"] for row in sync.rows("t")] == [2]


@contextmanager
def a_statement_that_runs(server: Playground) -> Iterator[None]:
    """A SELECT that holds its table's metadata lock until the end of the context, however slow the machine is."""
    other = server.connect(database=DATABASE)
    thread_id = other.thread_id()

    def select() -> None:
        # A killed SLEEP is an error or a row of 1, depending on the version.
        with other.cursor() as cursor, suppress(pymysql.OperationalError):
            cursor.execute("SELECT SLEEP(3600) FROM report")

    running = threading.Thread(target=select)
    running.start()
    try:
        while not server.rows(
            f"SELECT 1 FROM information_schema.processlist WHERE id = {thread_id} AND state = 'User sleep'"
        ):
            time.sleep(0.05)
        yield
    finally:
        server.run(f"KILL QUERY {thread_id}")
        running.join()
        other.close()


@pytest.mark.mysql
@pytest.mark.usefixtures("new_database")
def test_the_lock_for_a_table_without_a_key_does_not_block_writers_for_long(
    mysql: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_as_of, "_LOCK_S", 1)
    mysql.run("CREATE TABLE k (id INT)", "CREATE TABLE report (id INT)", "INSERT INTO report VALUES (1)")
    settled = server_positions.settled

    def settled_before_a_change(*args: Any) -> LogPosition:
        position = settled(*args)
        mysql.run("INSERT INTO k VALUES (2)")
        return position

    # The lock is used only if the table changes during each read.
    monkeypatch.setattr(chunk_as_of, "settled", settled_before_a_change)
    writer, pausing = Playground("mysql", mysql.port), Playground("mysql", mysql.port)
    over, pauses = threading.Event(), []

    def write() -> None:
        while not over.is_set():
            writer.run(f"INSERT INTO {DATABASE}.k VALUES (1)")

    def pause(seconds: float) -> None:
        if seconds:  # a writer that was blocked in the pause would wait until the end of the test
            pausing.run(f"INSERT INTO {DATABASE}.k VALUES (3)")
            pauses.append(seconds)

    monkeypatch.setattr(chunk_as_of, "time", SimpleNamespace(sleep=pause))

    busy = threading.Thread(target=write)
    sync = Sync(mysql, tmp_path, flags=KEYLESS)
    busy.start()
    try:
        with a_statement_that_runs(mysql), pytest.raises(SourceError, match="statements that run for long") as caught:
            sync.run()
        assert caught.value.retryable
        assert (caught.value.facts["seconds"], len(pauses)) == (1, chunk_as_of._TRIES - 1)
        monkeypatch.setattr(chunk_as_of, "_LOCK_S", 60)  # on a busy machine the writer alone may hold it for a second
        sync.run()
    finally:
        over.set()
        busy.join()
    sync.run()
    assert len(sync.ids("k")) == mysql.rows("SELECT COUNT(*) FROM k")[0][0]


@pytest.mark.mysql
@pytest.mark.usefixtures("new_database")
def test_a_table_that_another_session_locks_is_reported_as_locked_and_retryable(
    mysql: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = connection._SESSION.replace(f"lock_wait_timeout = {LOCK_WAIT_S}", "lock_wait_timeout = 1")
    monkeypatch.setattr(connection, "_SESSION", session)
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sync = Sync(mysql, tmp_path)
    other = mysql.connect(database=DATABASE)
    with other.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        with pytest.raises(SourceError, match="another session has locked a table") as caught:
            sync.run()
        assert caught.value.retryable
        assert f"`{DATABASE}`.`t`" in caught.value.facts["statement"]
        cursor.execute("UNLOCK TABLES")
    other.close()
    sync.run()
    assert sync.ids("t") == [1]
