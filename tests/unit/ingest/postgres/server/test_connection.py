"""What happens between the login at a PostgreSQL server and the first query of its user."""

from __future__ import annotations

import pytest
from psycopg import pq

from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.patience import patience
from penstock.ingest.postgres.server import connection
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.copy_stream import ServerRefused

BACKEND = 4711


class LoggedIn:
    """A connection of libpq."""

    status, server_version, backend_pid = pq.ConnStatus.OK, 17_00_00, BACKEND

    def __init__(self) -> None:
        self.is_finished = False

    def finish(self) -> None:
        self.is_finished = True


def test_a_connection_that_is_lost_at_its_first_setting_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[LoggedIn] = []

    class Libpq:
        @staticmethod
        def connect(_text: bytes) -> LoggedIn:
            made.append(LoggedIn())
            return made[-1]

    def lost(*_: object) -> None:
        raise ServerRefused("", "server closed the connection unexpectedly")

    monkeypatch.setattr(pq, "PGconn", Libpq)
    monkeypatch.setattr(connection, "run", lost)
    with pytest.raises(ConnectionLost):
        connection.connect(PgAddress("h", 5432, "cdc", "secret", "shop"))
    assert [thread.is_finished for thread in made] == [True]
    assert not connection.is_of_this_process(BACKEND)


def test_a_server_without_a_connection_for_readers_of_the_log_has_a_hint_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refused(LoggedIn):
        status = pq.ConnStatus.BAD
        error_message = b"FATAL:  number of requested standby connections exceeds max_wal_senders (currently 10)"

    monkeypatch.setattr(pq, "PGconn", type("Libpq", (), {"connect": staticmethod(lambda _: Refused())}))
    with pytest.raises(ConnectionLost) as caught, patience(0):
        connection.connect(PgAddress("h", 5432, "cdc", "secret", "shop"), replication=True)
    assert caught.value.retryable
    assert "ALTER SYSTEM SET max_wal_senders" in (caught.value.hint or "")
