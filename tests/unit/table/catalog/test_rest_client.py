"""Requests to a REST server: settings, pages, errors, retries, and what must not leave this machine."""

from __future__ import annotations

import http.server
import json
import logging
import pickle
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError, PenstockError, StoreError
from penstock.storage.environment import Environment
from penstock.table.catalog.rest_client import RestServer, server_address
from penstock.table.catalog.rest_replies import (
    RestBusy,
    RestCut,
    RestExists,
    RestMalformed,
    RestMissing,
    RestRefused,
    RestUncertain,
    RestUnsupported,
)
from tests.rest_server import PREFIX, Fault, RestCatalogServer, running
from tests.wire_server import json_reply, listening, path_of


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def running_server(tmp_path: Path) -> Iterator[tuple[RestCatalogServer, dict[str, str]]]:
    with running(tmp_path) as found:
        yield found


@pytest.fixture
def theirs(running_server: tuple[RestCatalogServer, dict[str, str]]) -> RestCatalogServer:
    return running_server[0]


@pytest.fixture
def server(running_server: tuple[RestCatalogServer, dict[str, str]], pauses: list[float]) -> RestServer:
    return client(running_server[1], pauses)


def client(options: dict[str, str], pauses: list[float]) -> RestServer:
    environment = Environment(sleep=pauses.append, jitter=lambda: 0.0)
    return RestServer(options["uri"], "lake", tuple(sorted(options.items())), environment)


@pytest.mark.slow
def test_the_prefix_comes_from_the_server(server: RestServer, theirs: RestCatalogServer) -> None:
    assert server.settings["prefix"] == PREFIX
    server.get("databases")
    assert [path for _, path, _ in theirs.requests] == ["/v1/config?warehouse=lake", "/v1/lake+of+tests/databases"]


@pytest.mark.slow
def test_defaults_of_the_server_yield_to_the_user_and_its_overrides_do_not(
    running_server: tuple[RestCatalogServer, dict[str, str]],
) -> None:
    theirs, options = running_server
    theirs.defaults = {"s3.endpoint": "http://default", "s3.region": "default", "header.X-Team": "default"}
    theirs.overrides = {"s3.path-style-access": "true", "header.X-Zone": "z"}
    given = {**options, "s3.region": "mine", "s3.path-style-access": "false", "header.X-Team": "mine"}
    server = client(given, [])
    settings = server.settings
    assert settings["s3.endpoint"] == "http://default"
    assert settings["s3.region"] == "mine"
    assert settings["s3.path-style-access"] == "true"
    server.get("databases")
    assert theirs.headers[-1]["x-team"] == "mine"
    assert theirs.headers[-1]["x-zone"] == "z"


def test_all_pages_of_a_list_are_read(server: RestServer, theirs: RestCatalogServer) -> None:
    theirs.databases = {f"d{number}": {} for number in range(5)}
    assert server.listed("databases", key="databases") == ["d0", "d1", "d2", "d3", "d4"]
    assert len(theirs.requests) == 1 + 3


@pytest.mark.slow
def test_a_page_that_is_repeated_is_an_error(server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestServer, "get", lambda *_, **__: {"databases": ["a"], "nextPageToken": "1"})
    with pytest.raises(StoreError, match="repeats a page"):
        server.listed("databases", key="databases")


@pytest.mark.slow
def test_names_are_encoded_as_segments_of_a_path(server: RestServer, theirs: RestCatalogServer) -> None:
    for name in ("a/b", "a b", "a%2Fb", "größe", "a?b#c", "*~"):
        theirs.databases = {name: {}}
        assert server.get("databases", name)["name"] == name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (400, RestRefused, "refused a request: a fault of the test"),
        (401, RestRefused, "refused a request"),
        (403, RestRefused, "refused a request"),
        (404, RestMissing, "refused a request"),
        (409, RestExists, "refused a request"),
        (501, RestUnsupported, "refused a request"),
        (500, RestUncertain, "the REST catalog failed"),
        (502, RestUncertain, "the REST catalog failed"),
        (504, RestUncertain, "the REST catalog failed"),
    ],
)
def test_errors_are_those_of_this_library(
    server: RestServer, theirs: RestCatalogServer, pauses: list[float], status: int, kind: type, message: str
) -> None:
    theirs.faults.append(Fault("POST", "/databases", status))
    with pytest.raises(kind, match=message) as caught:
        server.post("databases", body={"name": "d", "options": {}})
    assert type(caught.value) is kind
    assert isinstance(caught.value, PenstockError)
    assert caught.value.facts["status"] == status
    assert pauses == []
    assert theirs.databases == {}


@pytest.mark.slow
def test_a_login_that_is_refused_says_which_option_to_check(
    running_server: tuple[RestCatalogServer, dict[str, str]],
) -> None:
    server = client({**running_server[1], "token": "wrong"}, [])
    with pytest.raises(ConfigError, match="the login is not valid") as caught:
        server.get("databases")
    assert "token" in str(caught.value.hint)
    assert "wrong" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_to_a_busy_server_are_repeated(
    server: RestServer, theirs: RestCatalogServer, pauses: list[float], status: int, method: str
) -> None:
    theirs.faults.append(Fault(method, "/databases", status, times=3))
    if method == "GET":
        assert server.get("databases")["databases"] == []
    else:
        server.post("databases", body={"name": "d", "options": {}})
        assert list(theirs.databases) == ["d"]
    assert pauses == [1.0, 2.0, 4.0]


@pytest.mark.slow
def test_requests_to_a_busy_server_end_after_a_limit(
    server: RestServer, theirs: RestCatalogServer, pauses: list[float]
) -> None:
    theirs.faults.append(Fault("GET", "/databases", 503, times=100, headers={"Retry-After": "7"}))
    with pytest.raises(RestBusy, match="the REST catalog is busy"):
        server.get("databases")
    assert pauses == [7.0] * 5


@pytest.mark.slow
def test_a_pause_that_a_server_asks_for_is_bounded(
    server: RestServer, theirs: RestCatalogServer, pauses: list[float]
) -> None:
    theirs.faults.append(Fault("GET", "/databases", 429, headers={"Retry-After": "86400"}))
    server.get("databases")
    assert pauses == [64.0]


@pytest.mark.slow
def test_a_read_is_repeated_after_a_cut_and_a_change_is_not(server: RestServer, theirs: RestCatalogServer) -> None:
    theirs.faults.append(Fault("GET", "/databases", cut=True))
    assert server.get("databases")["databases"] == []
    theirs.faults.append(Fault("POST", "/databases", cut=True))
    with pytest.raises(RestCut, match="does not answer"):
        server.post("databases", body={"name": "d", "options": {}})
    assert list(theirs.databases) == ["d"]
    assert [method for method, path, _ in theirs.requests if path.endswith("/databases")].count("POST") == 1


def test_a_server_that_does_not_run_is_an_error_at_once(pauses: list[float]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # kept, so that nobody else listens there
        uri = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(StoreError, match=r"does not answer: .*refused") as caught:
            client({"uri": uri, "token": "t"}, pauses).get("databases")
    assert caught.value.facts["uri"] == uri
    assert pauses == []


@pytest.mark.slow
def test_the_token_is_read_for_each_request(
    running_server: tuple[RestCatalogServer, dict[str, str]], tmp_path: Path
) -> None:
    theirs, options = running_server
    secret = tmp_path / "token"
    secret.write_text("first\n")
    theirs.token = "first"
    server = client({**options, "token": f"${{file:{secret}}}"}, [])
    server.get("databases")
    secret.write_text("second\n")
    theirs.token = "second"
    server.get("databases")
    assert b"second" not in pickle.dumps(RestServer(server.uri, "lake", server.options))


class _Other(http.server.BaseHTTPRequestHandler):
    """A server that redirects to another one, or answers with something else than JSON."""

    def do_GET(self) -> None:
        self.send_response(302 if "/databases" in self.path else 200)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        data = json.dumps({"defaults": {}}).encode() if "config" in self.path else b"<html>"
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def other() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Other) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()


@pytest.mark.slow
def test_a_redirect_does_not_carry_the_token_elsewhere(other: str) -> None:
    with pytest.raises(RestRefused) as caught:
        client({"uri": other, "token": "t"}, []).get("databases")
    assert isinstance(caught.value, PenstockError)
    assert caught.value.facts["status"] == 302


@pytest.mark.slow
def test_a_reply_that_is_not_json_names_the_address(other: str) -> None:
    with pytest.raises(RestMalformed, match="not as its protocol requires: it is not JSON: <html>") as caught:
        client({"uri": other, "token": "t"}, []).get("else")
    assert caught.value.facts["uri"] == other


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"databases": "shop"}, "databases should be a list, and is 'shop'"),
        ({"databases": [1]}, "an entry of databases should be a text, and is 1"),
        ({"databases": ["a"], "nextPageToken": {}}, None),  # no token
        ({"databases": ["a"], "nextPageToken": 5}, "nextPageToken should be a text, and is 5"),
        ([], "the reply should be an object"),
    ],
)
def test_a_wrong_list_is_named(reply: object, message: str | None) -> None:
    def answer(request: bytes) -> bytes:
        return json_reply({} if "config" in path_of(request) else reply)

    with listening(answer) as wire:
        server = client({"uri": f"http://127.0.0.1:{wire.port}", "token": "t"}, [])
        if message is None:
            assert server.listed("databases", key="databases") == ["a"]
            return
        with pytest.raises(RestMalformed, match=message):
            server.listed("databases", key="databases")


def test_pages_that_follow_each_other_for_ever_are_an_error() -> None:
    def answer(request: bytes) -> bytes:
        following = "b" if b"pageToken=a" in request else "a"
        return json_reply({} if "config" in path_of(request) else {"databases": ["x"], "nextPageToken": following})

    with listening(answer) as wire, pytest.raises(StoreError, match="repeats a page"):
        client({"uri": f"http://127.0.0.1:{wire.port}", "token": "t"}, []).listed("databases", key="databases")


def test_a_read_whose_reply_was_cut_is_repeated() -> None:
    cut = True

    def answer(request: bytes) -> bytes:
        nonlocal cut
        whole = json_reply({} if "config" in path_of(request) else {"name": "shop"})
        if "config" not in path_of(request) and cut:
            cut = False
            return whole[:-3]
        return whole

    with listening(answer) as wire:
        assert client({"uri": f"http://127.0.0.1:{wire.port}", "token": "t"}, []).get("x") == {"name": "shop"}
    assert not cut


@pytest.mark.parametrize("part", ["defaults", "overrides"])
@pytest.mark.parametrize("setting", ["header.X-Evil", "token", "s3.access-key"])
def test_a_server_cannot_ask_for_secrets_of_the_machine(part: str, setting: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("top-secret")
    requests: list[bytes] = []

    def answer(request: bytes) -> bytes:
        requests.append(request)
        return json_reply({part: {setting: f"${{file:{tmp_path}/secret}}"}})

    with listening(answer) as wire, pytest.raises(ConfigError, match=f"sets {setting} to a reference") as caught:
        client({"uri": f"http://127.0.0.1:{wire.port}", "token": "t"}, []).get("databases")
    assert caught.value.facts["setting"] == f"{part}.{setting}"
    assert len(requests) == 1
    assert b"top-secret" not in requests[0]


def test_a_login_that_the_server_sets_needs_its_keys() -> None:
    reply = json_reply({"overrides": {"token.provider": "dlf", "dlf.region": "r"}})
    with listening(lambda _request: reply) as wire, pytest.raises(ConfigError, match="need keys"):
        client({"uri": f"http://127.0.0.1:{wire.port}", "token": "t"}, []).get("databases")


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://host:8443/", "https://host:8443"),
        (" http://host/paimon/ ", "http://host/paimon"),
        ("host:8080", "http://host:8080"),
    ],
)
def test_addresses(given: str, address: str) -> None:
    assert server_address(given) == address


@pytest.mark.parametrize(
    "given", ["ftp://host", "http://", "http://host:port", "http://me:secret@host", "https://host/?token=secret"]
)
def test_what_is_no_address_is_refused_without_its_secrets(given: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a REST catalog") as caught:
        server_address(given)
    assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_nothing_secret_is_logged(
    running_server: tuple[RestCatalogServer, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        penstock.Catalog("lake", running_server[1]).databases()
    assert running_server[1]["token"] not in caplog.text
