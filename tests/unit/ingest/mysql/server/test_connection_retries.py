"""A server that is away: it is waited for, and the log says so."""

from __future__ import annotations

import logging
import socket
import threading
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from penstock.errors import SourceError
from penstock.ingest.database import reachability
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.mysql.server import connection
from penstock.ingest.mysql.server.address import Secret, ServerAddress, Tls
from penstock.ingest.mysql.server.connection import connect
from tests.waiting import at_most, ended

# Without TLS: its settings are read from files at every attempt.
SERVER = ServerAddress("db", 3306, "cdc", Secret("x"), patience=60.0, tls=Tls("disabled"))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(reachability, "time", made)
    return made


def test_a_server_that_recovers_is_logged_twice(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def opened(server: ServerAddress, context: Any) -> str:
        if clock.now < 5:
            raise pymysql.OperationalError(2003, "Can't connect")
        return "connection"

    monkeypatch.setattr(connection, "_open", opened)
    with caplog.at_level(logging.WARNING):
        assert connect(SERVER) == "connection"
    assert [record.getMessage() for record in caplog.records] == [
        "event=waiting_for_server server=db:3306 at_most=60s reason=Can't connect",
        "event=server_is_back server=db:3306 after=5s",
    ]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1040, "Too many connections"),
        (1203, "User cdc already has more than 'max_user_connections' active connections"),
        (3032, "The server is currently in offline mode"),
        (1047, "WSREP has not yet prepared node for application use"),
    ],
)
def test_the_client_waits_for_a_server_that_refuses_everybody(
    code: int, text: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(server: ServerAddress, context: Any) -> str:
        if clock.now < 5:
            raise pymysql.OperationalError(code, text)
        return "connection"

    monkeypatch.setattr(connection, "_open", opened)
    assert connect(SERVER) == "connection"


@pytest.mark.slow
def test_a_service_that_does_not_speak_first_is_not_waited_for_as_for_a_statement() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = ServerAddress("127.0.0.1", silent.getsockname()[1], "cdc", Secret("x"), connect_timeout=1.0)
        with at_most(60), pytest.raises(ConnectionLost, match="cannot be reached") as error:
            connect(replace(server, patience=0.0, tls=Tls("disabled")))
    assert "timed out" in str(error.value.facts["reason"])


def test_waiting_for_a_server_ends_after_the_limit(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(server: ServerAddress, context: Any) -> str:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(connection, "_open", refused)
    with pytest.raises(ConnectionLost):
        connect(SERVER)
    assert clock.now == 60.0
    assert len(caplog.records) == 1


def test_a_greeting_that_cannot_be_read_is_an_error_that_may_pass() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = ServerAddress("127.0.0.1", listener.getsockname()[1], "u", Secret("p"), Tls("disabled"))

        def greet() -> None:
            client, _ = listener.accept()
            client.sendall(b"\x04\0\0\0\x0a8.\xff")  # the version has no end, and is no text
            client.recv(1)  # until it gives up
            client.close()

        greeting = threading.Thread(target=greet)
        greeting.start()
        with pytest.raises(SourceError, match="cannot be read") as caught:
            connect(server)
        ended(greeting)
    assert caught.value.retryable
    assert "check the network" in (caught.value.hint or "")
