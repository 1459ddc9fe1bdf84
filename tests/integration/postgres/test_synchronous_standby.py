"""A server that commits synchronously to a standby, which is away: commits are logged and not visible."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.findings import MissingGrant
from penstock.ingest.postgres.server import lsn, visibility
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.lsn import flushed_end
from penstock.ingest.postgres.server.visibility import wait_for_standbys
from tests.integration.postgres.sync import PgPlayground
from tests.integration.postgres.test_connection import address
from tests.waiting import ended

pytestmark = pytest.mark.postgres


@pytest.fixture
def standby_away(server: PgPlayground) -> Iterator[PgPlayground]:
    server.create("t", "id int PRIMARY KEY")
    server.run("ALTER SYSTEM SET synchronous_standby_names = 'away'", "SELECT pg_reload_conf()")
    while server.run("SHOW synchronous_standby_names") != "away":
        time.sleep(0.05)
    yield server
    comes_back(server)
    server.run("REVOKE pg_read_all_stats FROM cdc")


def comes_back(server: PgPlayground) -> None:
    server.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


@contextmanager
def commit_that_waits(server: PgPlayground) -> Iterator[None]:
    insert = threading.Thread(target=server.run, args=("INSERT INTO t VALUES (1)",))
    insert.start()
    while server.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "0":
        time.sleep(0.05)
    try:
        yield
    finally:
        comes_back(server)
        insert.join()


def does_end(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ended(thread)


def test_the_end_of_the_log_does_not_wait_for_the_standby(
    standby_away: PgPlayground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsn, "_LOOKS_BEFORE_MESSAGE", 0)
    with connected(address(standby_away)) as connection:
        # No transaction waits for this record, so the server does not flush it at once.
        standby_away.run("SELECT pg_logical_emit_message(false, 'test', 'not flushed')")
        does_end(lambda: flushed_end(connection))


@pytest.mark.parametrize("sees_sessions", [False, True])
def test_tables_are_not_read_while_a_commit_waits(
    standby_away: PgPlayground, monkeypatch: pytest.MonkeyPatch, *, sees_sessions: bool
) -> None:
    """A change of the log that is not visible yet would be undone by the row that is read after it."""
    if sees_sessions:
        standby_away.run("SET synchronous_commit = local; GRANT pg_read_all_stats TO cdc")
    monkeypatch.setattr(visibility, "_LONGEST_S", 0.5)
    with connected(address(standby_away)) as connection, commit_that_waits(standby_away):
        with pytest.raises(SourceError, match="commits wait for a synchronous standby"):
            wait_for_standbys(connection)
        monkeypatch.setattr(visibility, "_LONGEST_S", 240.0)
        comes_back_later = threading.Timer(1, comes_back, [standby_away])
        comes_back_later.start()
        wait_for_standbys(connection)
        assert connection.value("SELECT count(*) FROM t") == "1"
        comes_back_later.join()
    # No session of ours waits for ever.
    assert standby_away.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "0"


REVOKE = "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) FROM PUBLIC"


def test_a_wait_that_the_server_refuses_is_an_error(standby_away: PgPlayground) -> None:
    """Without the right to write a message nothing was waited for, and nothing said so."""
    standby_away.run(f"SET synchronous_commit = local; {REVOKE}")
    with (
        connected(address(standby_away)) as connection,
        commit_that_waits(standby_away),
        pytest.raises(MissingGrant, match="denied access"),
    ):
        wait_for_standbys(connection)


def test_a_user_who_may_write_no_message_waits_for_the_flush_of_others(
    server: PgPlayground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsn, "_LOOKS_BEFORE_MESSAGE", 0)
    server.run(REVOKE, "CREATE TABLE other (id int)")
    with connected(address(server)) as connection:
        server.run("SELECT pg_logical_emit_message(false, 'test', 'not flushed')")
        commit = threading.Timer(0.5, server.run, ["INSERT INTO other VALUES (1)"])
        commit.start()
        assert flushed_end(connection)
        commit.join()
