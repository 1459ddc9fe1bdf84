"""Strangers at the status page: every request is answered or hung up on, and the next one is served."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from penstock.pipelines.monitor import server as page
from penstock.pipelines.monitor.server import StatusServer
from tests.fuzz.mutations import changed, seeds
from tests.waiting import until

GOOD = [
    b"GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"HEAD / HTTP/1.0\r\n\r\n",
    b"POST /signal HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\nabc",
    b"GET /%2e%2e/etc/passwd?a=b HTTP/1.1\r\nHost: [::1]:80\r\nX: " + b"y" * 500 + b"\r\n\r\n",
]


@pytest.fixture
def server() -> Iterator[StatusServer]:
    made = StatusServer("127.0.0.1:0", lambda: {"pipeline": "p"}, lambda: b"m 1\n")
    yield made
    made.close()


def answer(server: StatusServer, request: bytes, wait: float = 60) -> bytes:
    found = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as wire:
        try:
            wire.sendall(request)
            wire.shutdown(socket.SHUT_WR)
            while piece := wire.recv(65536):
                found += piece
        except OSError:
            pass
    return found


def test_any_request_is_answered(server: StatusServer, request: pytest.FixtureRequest) -> None:
    for chance in seeds(request, 150, 5000):
        found = answer(server, changed(chance.choice(GOOD), chance, 4))
        assert b"root:" not in found
        assert b"Traceback" not in found
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health", timeout=240) as alive:
        assert alive.read() == b"ok\n"


@pytest.mark.parametrize("host", [b"evil.example", b"127.0.0.1.evil.example", b"localhost\r\nHost: b", b"", b"a b"])
def test_another_host_name_is_refused(server: StatusServer, host: bytes) -> None:
    found = answer(server, b"GET /status.json HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
    assert b"pipeline" not in found
    assert found.startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("host", [b"localhost", b"127.0.0.1", b"LocalHost:8080", b"[::1]:9", b"127.0.0.1:1"])
def test_its_host_names_are_accepted(server: StatusServer, host: bytes) -> None:
    found = answer(server, b"GET /status.json HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
    assert b'"pipeline"' in found


def test_a_public_server_accepts_any_host_name() -> None:
    server = StatusServer("0.0.0.0:0", lambda: {"pipeline": "p"}, None)
    try:
        request = b"GET /status.json HTTP/1.1\r\nHost: lake.example\r\nConnection: close\r\n\r\n"
        assert b'"pipeline"' in answer(server, request)
    finally:
        server.close()


def test_idle_connections_are_limited_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "IDLE_SECONDS", 1.0)
    server = StatusServer("127.0.0.1:0", lambda: {"pipeline": "p"}, None)
    before, held = threading.active_count(), []
    try:
        for _ in range(page.MOST_CONNECTIONS * 3):
            held += [socket.create_connection(("127.0.0.1", server.port), timeout=240)]
        assert threading.active_count() - before <= page.MOST_CONNECTIONS
        until(lambda: threading.active_count() <= before, "the ends of idle connections")
        # On a busy machine also a connection that asks may be idle for too long.
        until(lambda: b'"pipeline"' in answer(server, GOOD[0]), "an answer")
    finally:
        for wire in held:
            wire.close()
        server.close()
