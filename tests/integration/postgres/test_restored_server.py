"""A server whose files were put back to an earlier state, as from a copy of its disk: it stays on its timeline."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.ingest.postgres.errors import Diverged
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync
from tests.servers.launch import Kind, kill, running, start, stop
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
KIND: Kind = "postgres"


class _StopError(Exception):
    pass


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def server(folder: Path) -> Iterator[PgPlayground]:
    with running(KIND, folder) as port:
        found = PgPlayground(port)
        found.start_over()
        found.create("t", "id int PRIMARY KEY, n int")
        found.run("INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i")
        yield found


def kept(server: PgPlayground, folder: Path) -> Callable[[], None]:
    """Keep a copy of the server's files, and return a function that puts it in their place. Restarts the server."""

    def copied(source: str, target: str) -> None:
        stop(KIND, folder)
        shutil.rmtree(folder / target, ignore_errors=True)
        shutil.copytree(folder / source, folder / target)
        start(KIND, folder, server.port)  # which gives the files to the server's user

    copied("data", "copy")
    return lambda: copied("copy", "data")


def test_a_planned_batch_that_the_restored_server_lacks_is_reported(
    server: PgPlayground, folder: Path, tmp_path: Path
) -> None:
    sync = PgSync(server, tmp_path)
    sync.run()
    put_back = kept(server, folder)
    server.run("INSERT INTO t SELECT i, 1 FROM generate_series(100, 400) i")

    def stopped(*_: object) -> None:
        raise _StopError

    with pytest.raises(_StopError):
        sync.run(stopped)
    put_back()
    with pytest.raises(Diverged, match="ends before the position of the pipeline"):
        sync.run()


@contextmanager
def open_transaction(server: PgPlayground) -> Iterator[None]:
    """Write rows in a transaction that is open as long as the context, and ends with the server."""
    address = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", "-d", DATABASE]
    with subprocess.Popen(["psql", "-Xq", *address], stdin=subprocess.PIPE, text=True) as session:
        assert session.stdin is not None
        session.stdin.write("BEGIN;\nINSERT INTO t SELECT i, 1 FROM generate_series(1000, 50000) i;\n")
        session.stdin.flush()
        busy = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        until(lambda: server.run(busy) == "1", "the open transaction")
        yield
        session.stdin.close()


def log_beyond(server: PgPlayground, position: str) -> None:
    """Write to the server until its log is longer than the position."""
    server.run("CREATE TABLE other (t text)")
    while server.run(f"SELECT pg_current_wal_flush_lsn() > '{position}'") != "t":
        server.run("INSERT INTO other SELECT repeat('x', 500) FROM generate_series(1, 1000)")


@pytest.mark.parametrize(
    ("is_longer", "message"),
    [
        (False, "ends before the position of the pipeline"),
        (True, "the log that the pipeline has read is not the log of the server"),
    ],
)
def test_a_restored_server_is_reported_before_and_after_its_log_reaches_the_position(
    server: PgPlayground, folder: Path, tmp_path: Path, is_longer: bool, message: str
) -> None:
    sync = PgSync(server, tmp_path)
    sync.run()
    put_back = kept(server, folder)
    server.run("INSERT INTO t SELECT i, 1 FROM generate_series(100, 400) i")
    sync.run()
    position = server.run("SELECT pg_current_wal_insert_lsn()")
    put_back()
    # A reader that goes on at the position would not get this change.
    server.run("UPDATE t SET n = 7 WHERE id = 1")
    if is_longer:
        log_beyond(server, position)
    with pytest.raises(Diverged, match=message) as caught:
        sync.run()
    assert caught.value.exit_code == 4
    sync.flags = ["--resnapshot"]
    sync.run()
    assert {key: row["n"] for key, row in sync.rows("t").items()} == {1: 7, **dict.fromkeys(range(2, 11), 0)}


def test_another_log_is_noticed_at_the_end_of_a_file_that_was_not_full(
    server: PgPlayground, folder: Path, tmp_path: Path
) -> None:
    """As with `archive_timeout`: the last bytes of such files are zeros."""
    sync = PgSync(server, tmp_path)
    sync.run()
    put_back = kept(server, folder)
    server.run("INSERT INTO t SELECT i, 1 FROM generate_series(100, 400) i", "SELECT pg_switch_wal()")
    sync.run()
    put_back()
    server.run("UPDATE t SET n = 7 WHERE id = 1", "SELECT pg_switch_wal()", "INSERT INTO t VALUES (500, 5)")
    with pytest.raises(Diverged, match="the log that the pipeline has read is not the log of the server"):
        sync.run()


def test_a_planned_batch_that_a_restored_server_has_otherwise_is_not_read(
    server: PgPlayground, folder: Path, tmp_path: Path
) -> None:
    sync = PgSync(server, tmp_path)
    sync.run()
    put_back = kept(server, folder)
    server.run("INSERT INTO t SELECT i, 1 FROM generate_series(100, 400) i")

    def stopped(*_: object) -> None:
        raise _StopError

    with pytest.raises(_StopError):
        sync.run(stopped)
    position = server.run("SELECT pg_current_wal_insert_lsn()")
    put_back()
    log_beyond(server, position)
    server.run("INSERT INTO t VALUES (500, 5)")
    with pytest.raises(Diverged, match="the log that the pipeline has read is not the log of the server"):
        sync.run()
    assert 500 not in sync.rows("t")


@pytest.mark.parametrize("end", [kill, stop])
def test_a_server_that_was_restarted_or_killed_is_read_on(
    server: PgPlayground, folder: Path, tmp_path: Path, end: Callable[[Kind, Path], None]
) -> None:
    sync = PgSync(server, tmp_path)
    sync.run()
    for number in range(3):
        server.run(f"INSERT INTO t VALUES ({100 + number}, 1)")
        if number:
            sync.run()
        # The server also ends during a transaction: a part of it is flushed, and it is never committed.
        with open_transaction(server):
            end(KIND, folder)
        start(KIND, folder, server.port)
    sync.run()
    assert len(sync.rows("t")) == 13
