"""What happens between the login at a PostgreSQL server and the first query of its user."""

from __future__ import annotations

import socket
import threading

import psycopg
import pytest

from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.patience import patience
from penstock.ingest.postgres.server import connection
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.silence import ServerRefused
from tests.waiting import ended

BACKEND = 4711


class LoggedIn:
    """A connection of psycopg, and of libpq."""

    server_version, backend_pid, nonblocking = 17_00_00, BACKEND, 1

    def __init__(self) -> None:
        self.is_finished = False

    @property
    def pgconn(self) -> LoggedIn:
        return self

    def finish(self) -> None:
        self.is_finished = True


def test_a_connection_that_is_lost_at_its_first_setting_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[LoggedIn] = []

    def connect(_text: str, **_: object) -> LoggedIn:
        made.append(LoggedIn())
        return made[-1]

    def lost(*_: object) -> None:
        raise ServerRefused("", "server closed the connection unexpectedly")

    monkeypatch.setattr(psycopg.Connection, "connect", connect)
    monkeypatch.setattr(connection, "run", lost)
    with pytest.raises(ConnectionLost):
        connection.connect(PgAddress("h", 5432, "cdc", "secret", "shop"))
    assert [thread.is_finished for thread in made] == [True]
    assert not connection.is_of_this_process(BACKEND)


def test_a_server_without_a_connection_for_readers_of_the_log_has_a_hint_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_text: str, **_: object) -> None:
        raise psycopg.OperationalError(
            "connection failed: FATAL:  number of requested standby connections exceeds max_wal_senders (currently 10)"
        )

    monkeypatch.setattr(psycopg.Connection, "connect", refuse)
    with pytest.raises(ConnectionLost) as caught, patience(0):
        connection.connect(PgAddress("h", 5432, "cdc", "secret", "shop"), replication=True)
    assert caught.value.retryable
    assert "ALTER SYSTEM SET max_wal_senders" in (caught.value.hint or "")


def test_other_threads_run_while_a_server_does_not_answer() -> None:
    """Those of a driver renew locks and answer requests meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_late() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1)

        thread = threading.Thread(target=answer_late)
        thread.start()
        address = PgAddress("127.0.0.1", listener.getsockname()[1], "cdc", "secret", "shop", connect_timeout=60)
        with pytest.raises(ConnectionLost) as caught, patience(0):
            connection.connect(address)
        ended(thread)
    assert "timeout" not in caught.value.facts["reason"]
