"""A schema registry that answers over HTTP as Confluent's does: what its readers ask for, what they may be told."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """Schemas by id. `fail` answers so many requests with 503 first, `password` (`user:word`) is asked of everyone,
    `extra` is put beside the schemas, `asked` remembers the paths. `stop` and `start` keep the address."""

    def __init__(self) -> None:
        self.schemas: dict[int, Any] = {}
        self.extra: dict[str, Any] = {}
        self.asked: list[str] = []
        self.fail = 0
        self.password: str | None = None
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = outer.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_args: Any) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = self._http.server_address[1]
        # A short interval, because `stop` waits for the end of one.
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str, credentials: str | None) -> tuple[int, Any]:
        self.asked.append(path)
        if self.fail:
            self.fail -= 1
            return 503, {"error_code": 50003, "message": "Error while forwarding the request to the primary"}
        if self.password and credentials != "Basic " + base64.b64encode(self.password.encode()).decode():
            return 401, {"error_code": 401, "message": "Unauthorized"}
        head, _, number = path.rpartition("/")
        if head != "/schemas/ids":
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        if int(number) not in self.schemas:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, {"schema": json.dumps(self.schemas[int(number)]), **self.extra}

    def register(self, schema: Any) -> int:
        """The id of the schema, a new one where it has none yet."""
        for number, known in self.schemas.items():
            if known == schema:
                return number
        number = len(self.schemas) + 1
        self.schemas[number] = schema
        return number


@contextmanager
def running() -> Iterator[Registry]:
    registry = Registry()
    try:
        yield registry
    finally:
        registry.stop()
