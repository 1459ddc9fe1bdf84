"""The wait for an answer that begins and does not go on."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pymysql
import pytest

from penstock.ingest.mysql.server import login
from penstock.ingest.mysql.server.login import GuardedConnection


@pytest.fixture
def ends() -> Iterator[tuple[GuardedConnection, socket.socket]]:
    """A connection that waits for a minute, and the server's end of it."""
    ours, servers = socket.socketpair()
    connection = GuardedConnection.__new__(GuardedConnection)
    connection._sock = ours
    connection._rfile = ours.makefile("rb")  # type: ignore[attr-defined]  # PyMySQL's own
    ours.settimeout(60)
    with ours, servers:
        yield connection, servers


def test_the_rest_of_a_packet_is_waited_for_less_long(
    ends: tuple[GuardedConnection, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed length asks for bytes that the server does not have, which took five minutes to notice."""
    connection, server = ends
    monkeypatch.setattr(login, "_REST_S", 0.05)
    server.sendall(b"\x09\0\0\0part")
    assert connection._read_bytes(4) == b"\x09\0\0\0"
    with pytest.raises(pymysql.OperationalError, match="Lost connection"):
        connection._read_bytes(9)


def test_the_beginning_of_the_next_packet_is_waited_for_as_before(
    ends: tuple[GuardedConnection, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, server = ends
    monkeypatch.setattr(login, "_REST_S", 1.0)
    server.sendall(b"whole")
    assert connection._read_bytes(5) == b"whole"
    assert connection._sock.gettimeout() == 60
