"""Requests to Iceberg REST catalogs: login, settings of the server, refusals, and replies in another form."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from penstock.errors import ConfigError, StoreError
from penstock.table.metastore.iceberg_client import EntryChanged, EntryMissing, IcebergCatalogClient

Request = tuple[str, str, dict[str, str], bytes]


@contextmanager
def server(replies: dict[str, tuple[int, Any]]) -> Iterator[tuple[str, list[Request]]]:
    """A server with these replies by method and path, and the requests that it received."""
    received: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            received.append((self.command, self.path, dict(self.headers), body))
            status, value = replies.get(f"{self.command} {self.path}", (404, {}))
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if status in {302, 307}:
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def do_DELETE(self) -> None:
            self.answer()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_address[1]}/api/", received
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


CONFIG = {"defaults": {"prefix": "theirs", "scope": "all"}, "overrides": {"prefix": "lake"}}
TABLE = {"metadata": {"table-uuid": "u"}}


@pytest.mark.slow
def test_the_server_names_the_prefix_and_names_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_TOKEN", "abc")
    replies = {
        "GET /api/v1/config?warehouse=my+lake": (200, CONFIG),
        "GET /api/v1/lake/namespaces/a%20b/tables/c%2Fd": (200, TABLE),
        "DELETE /api/v1/lake/namespaces/a%20b/tables/c%2Fd?purgeRequested=false": (204, b""),
    }
    with server(replies) as (uri, received):
        client = IcebergCatalogClient.of(uri, {"warehouse": "my lake", "prefix": "mine", "token": "${LAKE_TOKEN}"})
        assert client.table("a b", "c/d") == {"table-uuid": "u"}
        client.drop("a b", "c/d")
        assert [request[0] for request in received] == ["GET", "GET", "DELETE"]
        assert {request[2]["Authorization"] for request in received} == {"Bearer abc"}
        assert "abc" not in repr(client)


@pytest.mark.slow
def test_a_credential_is_exchanged_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_CREDENTIAL", "me:s3:cret")
    replies = {
        "GET /api/v1/config": (200, {"defaults": {}, "overrides": {}}),
        "POST /api/v1/oauth/tokens": (200, {"access_token": "t1", "token_type": "bearer"}),
        "GET /api/v1/namespaces/db/tables/t": (200, TABLE),
    }
    with server(replies) as (uri, received):
        client = IcebergCatalogClient.of(uri, {"credential": "${LAKE_CREDENTIAL}", "scope": "PRINCIPAL_ROLE:ALL"})
        client.table("db", "t")
        form = parse_qs(next(body for method, _, _, body in received if method == "POST").decode())
        assert form["client_id"] == ["me:s3"]
        assert form["client_secret"] == ["cret"]
        assert form["scope"] == ["PRINCIPAL_ROLE:ALL"]
        assert received[-1][2]["Authorization"] == "Bearer t1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (404, {"error": {"message": "no such table", "code": 404}}, EntryMissing, "no such table"),
        (409, {"error": {"message": "branch main has changed"}}, EntryChanged, "branch main has changed"),
        (401, {"error": {"message": "log in"}}, ConfigError, "log in"),
        (400, b"<html>", ConfigError, "refused a request: status 400"),
        (500, {"error": {"message": "no"}}, StoreError, "failed: no"),
        (429, b"", StoreError, "failed: status 429"),
        (302, b"", ConfigError, "status 302"),
        (200, b"<html>", StoreError, "not as its protocol requires"),
        (200, {"metadata": 1}, StoreError, "metadata should be an object"),
        (200, {}, StoreError, "not as its protocol requires"),
    ],
)
def test_refusals_and_other_replies_are_errors(status: int, body: Any, kind: type[Exception], message: str) -> None:
    replies = {"GET /api/v1/config": (200, {}), "GET /api/v1/namespaces/db/tables/t": (status, body)}
    with server(replies) as (uri, _), pytest.raises(kind, match=message):
        IcebergCatalogClient.of(uri, {}).table("db", "t")


@pytest.mark.slow
def test_settings_of_the_server_name_no_secret_of_this_machine() -> None:
    replies = {"GET /api/v1/config": (200, {"overrides": {"token": "${HOME}"}})}
    with server(replies) as (uri, _), pytest.raises(ConfigError, match="a reference to a secret of this machine"):
        IcebergCatalogClient.of(uri, {}).table("db", "t")


@pytest.mark.parametrize("uri", ["thrift://host:9083", "host", "http://"])
def test_other_addresses_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of an Iceberg REST catalog"):
        IcebergCatalogClient.of(uri, {})
