"""A server that answers each connection with given bytes, whether or not they are what a protocol allows."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.waiting import LIMIT_S


class WireServer(socketserver.ThreadingTCPServer):
    """`reply` makes the bytes of an answer from those of a request. `port` is where it listens."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, reply: Callable[[bytes], bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.reply = reply
        self.port: int = self.server_address[1]


class _Connection(socketserver.BaseRequestHandler):
    server: WireServer

    def handle(self) -> None:
        self.request.settimeout(LIMIT_S)
        try:
            request = self.request.recv(1 << 16)
            if request:
                self.request.sendall(self.server.reply(request))
        except OSError:
            return  # the client has closed the connection


@contextmanager
def listening(reply: Callable[[bytes], bytes]) -> Iterator[WireServer]:
    with WireServer(reply) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def http_reply(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def json_reply(document: Any, status: str = "200 OK") -> bytes:
    return http_reply(json.dumps(document).encode(), status, "Content-Type: application/json")


def path_of(request: bytes) -> str:
    """Return the path of a request of HTTP, without its query."""
    return request.split(b" ", 2)[1].decode().partition("?")[0]
