"""Replies of a REST catalog that are not those of the protocol: named errors, and nothing is guessed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError, PenstockError, StoreError, TableCorrupt
from penstock.storage.environment import Environment
from penstock.table.catalog.rest_client import RestServer
from penstock.table.catalog.rest_replies import RestCut, RestMalformed, RestMissing, RestUncertain
from penstock.table.handle import Table
from tests.rest_server import RestCatalogServer, running

COLUMNS = [("id", "INT NOT NULL")]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[tuple[RestCatalogServer, penstock.Catalog]]:
    with running(tmp_path / "files") as (server, options):
        catalog = penstock.Catalog("lake", options, ambient=Environment(sleep=lambda _: None))
        catalog.create_database("shop")
        catalog.create_table("shop.orders", COLUMNS, options={"bucket": "-1"})
        yield server, catalog


def put(table: Table) -> None:
    with table.writer(commit_user="job") as writer:
        writer.write(
            pa.table({"id": pa.array([1], pa.int32())}, pa.schema([pa.field("id", pa.int32(), nullable=False)]))
        )
        writer.commit(1)


def replace(server: RestCatalogServer, end: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the replies to successful GETs of paths with this end."""
    answer = server.answer

    def changed(method: str, target: str, data: bytes, headers: Any) -> tuple[int, Any]:
        status, node = answer(method, target, data, headers)
        if status == 200 and target.partition("?")[0].endswith(end) and node is not None:
            node = change(node)
        return status, node

    server.answer = changed  # type: ignore[method-assign]


@pytest.mark.slow
@pytest.mark.parametrize("names", ["abc", {"a": 1}, [1, 2], ["a", None], 5, ["\ud800"]])
def test_a_list_of_names_that_is_not_one_is_an_error(
    lake: tuple[RestCatalogServer, penstock.Catalog], names: Any
) -> None:
    server, catalog = lake
    replace(server, "/databases", lambda node: {**node, "databases": names})
    with pytest.raises(RestMalformed, match="databases") as caught:
        catalog.databases()
    assert {"uri", "request"} <= caught.value.facts.keys()
    assert caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("key", ["id", "path"])
@pytest.mark.parametrize("value", [None, "", 5, ["x"]])
def test_a_table_without_an_id_or_path_is_not_opened(
    lake: tuple[RestCatalogServer, penstock.Catalog], key: str, value: Any
) -> None:
    server, catalog = lake
    replace(server, "/orders", lambda node: {**node, key: value})
    with pytest.raises(RestMalformed, match=f"{key} (is|should be) "):
        catalog.table("shop.orders")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["file:/a\x00b", "~nobody-of-this-name/x", "/a\x00b"])
def test_a_place_of_a_table_that_is_not_a_path_is_named(
    lake: tuple[RestCatalogServer, penstock.Catalog], path: str
) -> None:
    server, catalog = lake
    replace(server, "/orders", lambda node: {**node, "path": path})
    with pytest.raises(ConfigError, match="path"):
        catalog.table("shop.orders")


@pytest.mark.slow
@pytest.mark.parametrize("schema", [5, ["x"], {"options": "x"}, {"options": {"type": []}}])
def test_a_schema_that_is_not_an_object_is_an_error(
    lake: tuple[RestCatalogServer, penstock.Catalog], schema: Any
) -> None:
    server, catalog = lake
    replace(server, "/orders", lambda node: {**node, "schema": schema})
    with pytest.raises(RestMalformed, match="schema"):
        catalog.table("shop.orders")


@pytest.mark.slow
@pytest.mark.parametrize("reply", [{}, {"snapshot": None}, {"snapshot": {"snapshot": []}}, {"snapshot": {}}])
def test_a_snapshot_that_is_missing_in_a_reply_is_an_error(
    lake: tuple[RestCatalogServer, penstock.Catalog], reply: Any
) -> None:
    server, catalog = lake
    put(catalog.table("shop.orders"))
    replace(server, "/snapshot", lambda _: reply)
    with pytest.raises(RestMalformed, match="snapshot"):
        catalog.store("shop.orders").snapshots.latest()


@pytest.mark.slow
def test_a_snapshot_with_wrong_members_names_the_table(lake: tuple[RestCatalogServer, penstock.Catalog]) -> None:
    server, catalog = lake
    put(catalog.table("shop.orders"))
    replace(server, "/snapshot", lambda _: {"snapshot": {"snapshot": {"id": "one"}}})
    with pytest.raises(TableCorrupt, match="'id'"):
        catalog.store("shop.orders").snapshots.latest()


@pytest.mark.slow
@pytest.mark.parametrize("part", ["defaults", "overrides"])
@pytest.mark.parametrize("value", [[], "x", {"a": {}}])
def test_settings_of_the_server_that_are_not_options_are_refused(tmp_path: Path, part: str, value: Any) -> None:
    with running(tmp_path) as (server, options):
        replace(server, "/config", lambda node: {**node, part: value})
        with pytest.raises(RestMalformed, match=part):
            penstock.Catalog("lake", options).databases()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"), [("header.X-A", "a\r\nX-B: b"), ("header.X-A", "日本"), ("header.X A", "b"), ("header.", "b")]
)
def test_a_header_that_http_does_not_allow_names_its_option(tmp_path: Path, name: str, value: str) -> None:
    with running(tmp_path) as (server, options):
        server.overrides = {name: value}
        with pytest.raises(ConfigError, match="header") as caught:
            penstock.Catalog("lake", options).databases()
        assert caught.value.facts["option"] == name


class Raw:
    """A server that answers every request with the same bytes, and closes the connection."""

    def __init__(self) -> None:
        self.bytes, self.requests = b"", 0
        raw = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                raw.requests += 1
                settings = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
                self.wfile.write(settings if "config" in self.path else raw.bytes)
                self.close_connection = True

            do_POST = do_GET  # noqa: N815 -- the name is that of http.server

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        url = f"http://127.0.0.1:{self.http.server_port}"
        self.client = RestServer(url, "lake", (("token", "t"), ("uri", url)), Environment(sleep=lambda _: None))


@pytest.fixture
def raw() -> Iterator[Raw]:
    made = Raw()
    yield made
    made.http.shutdown()
    made.http.server_close()


def ok(body: bytes, length: int | None = None) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (ok(b"{", 50), RestCut),
        (ok(b"", 50), RestCut),
        (b"", RestCut),
        (b"nonsense\r\n\r\n", RestCut),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", RestCut),
        (ok(b"[" * 200_000), RestMalformed),
        (ok(b"[]"), RestMalformed),
        (ok(b"null"), RestMalformed),
        (ok(b"\xff\xfe{}"), RestMalformed),
        (ok(b'{"databases": [' + b"9" * 5000 + b"]}"), RestMalformed),
        (ok(b'{"databases": ["\\ud800"]}'), RestMalformed),
        (b"HTTP/1.1 500 X\r\nContent-Length: 90\r\n\r\ncut", RestUncertain),
        (b"HTTP/1.1 404 X\r\nContent-Length: 6\r\n\r\n[[[[[[", RestMissing),
        (b'HTTP/1.1 404 X\r\nContent-Length: 14\r\n\r\n{"code": true}', RestMissing),
        (b'HTTP/1.1 500 X\r\nContent-Length: 13\r\n\r\n{"code": 200}', RestUncertain),
        (b"HTTP/1.1 302 X\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n", RestUncertain),
        (b"HTTP/1.1 503 X\r\nRetry-After: \xb2\r\nContent-Length: 0\r\n\r\n", RestUncertain),
    ],
)
def test_every_reply_is_an_error_of_this_library(raw: Raw, reply: bytes, kind: type[PenstockError]) -> None:
    raw.bytes = reply
    with pytest.raises(kind) as caught:
        raw.client.listed("databases", key="databases")
    assert {"uri", "request"} <= caught.value.facts.keys()


def test_a_change_with_a_reply_that_was_cut_off_is_not_repeated(raw: Raw) -> None:
    raw.bytes = ok(b"", 50)
    with pytest.raises(StoreError, match="does not answer"):
        raw.client.post("databases", body={})
    assert raw.requests == 2  # the settings, and the change once


def test_a_reply_that_is_too_large_is_not_read_to_its_end(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.json_answers.answer_bytes.__defaults__", (1 << 20, 60.0))
    raw.bytes = ok(b" " * ((1 << 20) + 1))
    with pytest.raises(RestMalformed, match="larger than 1 MiB"):
        raw.client.get("databases")
