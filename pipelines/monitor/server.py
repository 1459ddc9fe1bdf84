"""The driver's own small server.

`/` is the status page, `/status.json` its content, and `/metrics` is for Prometheus. `/health` answers 503 if the
pipeline makes no progress although it should.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from penstock.errors import ConfigError, PenstockError

log = logging.getLogger(__name__)

PAGE = Path(__file__).with_name("page.html")
MOST_CONNECTIONS = 64
IDLE_SECONDS = 10.0  # after which a silent connection is closed
_HOST = re.compile(r":\d*$")
# The page loads nothing from other sites, and no other page may show it in a frame.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self';"
    " frame-ancestors 'none'"
)


class StatusServer:
    """The server. Its port is bound at once, so that a port in use fails before the first batch.

    `status`, `metrics` and `trouble` are called for each request.
    """

    def __init__(
        self,
        address: str,
        status: Callable[[], dict[str, Any]],
        metrics: Callable[[], bytes] | None,
        *,
        page: bool = True,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        host, _, port = address.rpartition(":")
        handler = _handler(status, metrics, trouble, page=page)
        try:
            self._server = _Server((host.strip("[]") or "127.0.0.1", int(port)), handler)
        except OSError as error:
            raise ConfigError(
                "the metrics server cannot listen on its address",
                address=address,
                reason=error.strerror,
                hint="another pipeline may use it: set a different address for each in  observe: {metrics: ...}",
            ) from error
        # A browser that stays connected must not keep the process alive.
        self._server.daemon_threads = True
        self._server.names = _names(host.strip("[]"))
        self._thread = threading.Thread(target=self._server.serve_forever, name="penstock-page", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _names(host: str) -> frozenset[str] | None:
    """Return the host names that requests may have, or None if the address is open to other machines anyway.

    Any other site can let its own name resolve to 127.0.0.1, and its page in a browser could then read the status.
    """
    local = host in {"", "localhost", "::1"} or host.startswith("127.")
    return frozenset({"localhost", "127.0.0.1", "::1", host.lower()}) if local else None


class _Server(ThreadingHTTPServer):
    names: frozenset[str] | None = None
    request_queue_size = 32

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle each connection in a thread. Connections beyond the limit are closed at once."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the thread could not be started
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without looking up the machine's name, as http.server does: it may take long, and is not needed."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Log the error in one line, unless the reader closed the connection."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            log.warning("event=request_failed reason=%s: %s", type(error).__name__, error)


def _handler(
    status: Callable[[], dict[str, Any]],
    metrics: Callable[[], bytes] | None,
    trouble: Callable[[], str | None],
    *,
    page: bool,
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # Connections are used for several requests, so every answer needs its length.
        protocol_version = "HTTP/1.1"
        timeout = IDLE_SECONDS

        def do_GET(self) -> None:
            if not self._is_asked_for():
                self.send_error(421, "the metrics server was called by another host name")
                return
            try:
                path = self.path.partition("?")[0]
                found = _health(trouble()) if path == "/health" else _content(path, status, metrics, page=page)
            except (PenstockError, OSError) as error:
                found = 503, "application/json", json.dumps({"error": str(error)}).encode()
            code, kind, body = found or (404, "text/plain", b"there is /, /status.json, /metrics and /health\n")
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", _POLICY)
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _is_asked_for(self) -> bool:
            names = getattr(self.server, "names", None)
            hosts = self.headers.get_all("Host", [])
            # HTTP/1.0 does not require the header Host, and no browser uses that version.
            if names is None or (not hosts and self.request_version == "HTTP/1.0"):
                return True
            return len(hosts) == 1 and _HOST.sub("", hosts[0].strip().lower()).strip("[]") in names

        do_HEAD = do_GET  # noqa: N815 -- http.server's name

        def log_message(self, format: str, *args: object) -> None:
            """Do not log requests."""

    return Handler


def _health(trouble: str | None) -> tuple[int, str, bytes]:
    return 200 if trouble is None else 503, "text/plain; charset=utf-8", f"{trouble or 'ok'}\n".encode()


def _content(
    path: str, status: Callable[[], dict[str, Any]], metrics: Callable[[], bytes] | None, *, page: bool
) -> tuple[int, str, bytes] | None:
    if path == "/metrics" and metrics is not None:
        return 200, "text/plain; version=0.0.4; charset=utf-8", metrics()
    if path == "/status.json":
        return 200, "application/json", json.dumps(status()).encode()
    if path == "/" and page:
        return 200, "text/html; charset=utf-8", PAGE.read_bytes()
    return None
