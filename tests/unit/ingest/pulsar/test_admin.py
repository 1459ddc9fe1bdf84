"""Requests to the admin interface, answered by an HTTP server of the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from penstock.errors import ConfigError, SourceError
from penstock.ingest.pulsar.admin import NOTHING, PulsarAdmin, SubscriptionState

TOPIC = "persistent://shop/eu/orders"


class AdminServer:
    """Answers by path, 404 without one; a status is an error. Remembers the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.logins: list[str | None] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.logins.append(self.headers.get("Authorization"))
                found = server.answers.get(self.path.removeprefix("/admin/v2/"), HTTPStatus.NOT_FOUND)
                body = b"" if isinstance(found, HTTPStatus) else json.dumps(found).encode()
                self.send_response(found if isinstance(found, HTTPStatus) else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *given: object) -> None:
                """Write nothing to the output of the tests."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[AdminServer]:
    made = AdminServer()
    yield made
    made.close()


def admin(server: AdminServer, **properties: str) -> PulsarAdmin:
    more = {f"pulsar.client.{name}": value for name, value in properties.items()}
    return PulsarAdmin({"pulsar.admin.adminUrl": f"{server.url}/", **more})


def test_topics_match_as_a_whole_and_partitions_are_one_topic(server: AdminServer) -> None:
    names = ["orders-partition-0", "orders-partition-1", "orders_old", "items", "__change_events"]
    server.answers["persistent/shop/eu"] = [f"persistent://shop/eu/{name}" for name in names]
    server.answers["persistent/shop/eu/partitioned"] = ["persistent://shop/eu/empty"]
    found = admin(server).topics_matching("shop/eu/(orders|empty|item|__.*)")
    assert found == ["persistent://shop/eu/empty", "persistent://shop/eu/orders"]


def test_entries_of_the_ledger_that_is_written_are_counted_separately(server: AdminServer) -> None:
    server.answers["persistent/shop/eu/orders-partition-2/internalStats"] = {
        "ledgers": [{"ledgerId": 4, "entries": 100}, {"ledgerId": 9, "entries": 0}],
        "currentLedgerEntries": 17,
    }
    assert admin(server).ledgers((TOPIC, 2)) == [(4, 100), (9, 17)]
    assert admin(server).ledgers((TOPIC, 3)) == []


def test_a_subscription_has_a_state(server: AdminServer) -> None:
    path = "persistent/shop/eu/orders-partition-2"
    server.answers[f"{path}/stats"] = {"subscriptions": {"a/b": {}, "c": {}}}
    server.answers[f"{path}/internalStats"] = {
        "ledgers": [{"ledgerId": 9, "entries": 0}],
        "currentLedgerEntries": 17,
        "lastConfirmedEntry": "9:16",
        "cursors": {"a%2Fb": {"markDeletePosition": "4:2"}, "c": {"markDeletePosition": "9:-1"}},
    }
    admin_ = admin(server)
    assert admin_.subscription((TOPIC, 2), "a/b") == SubscriptionState(True, (4, 2), {9: 17}, (9, 16))
    assert admin_.subscription((TOPIC, 2), "c") == SubscriptionState(True, (9, -1), {9: 17}, (9, 16))
    assert admin_.subscription((TOPIC, 2), "d") == SubscriptionState(False, NOTHING, {9: 17}, (9, 16))
    assert admin_.subscription((TOPIC, 3), "c") == SubscriptionState(False, NOTHING, {}, NOTHING)
    server.answers[f"{path}/internalStats"] = {"lastConfirmedEntry": "newest"}
    with pytest.raises(SourceError, match="ledger:entry"):
        admin_.subscription((TOPIC, 2), "c")


def test_what_does_not_exist_is_none(server: AdminServer) -> None:
    server.answers["persistent/shop/eu/orders/stats"] = {"msgInCounter": 1}
    server.answers["namespaces/shop/eu/messageTTL"] = 3600
    server.answers["schemas/shop/eu/orders/schema"] = {"type": "AVRO"}
    admin_ = admin(server)
    assert admin_.exists((TOPIC, -1))
    assert not admin_.exists((TOPIC, 0))
    assert (admin_.message_ttl(TOPIC), admin_.message_ttl("persistent://shop/us/orders")) == (3600, None)
    assert (admin_.schema_type(TOPIC), admin_.schema_type("persistent://shop/eu/items")) == ("AVRO", None)


@pytest.mark.parametrize(("code", "retryable", "hinted"), [(403, False, True), (401, False, True), (503, True, False)])
def test_refusals_are_not_repeated_and_errors_of_the_server_are(
    server: AdminServer, code: int, retryable: bool, hinted: bool
) -> None:
    server.answers["persistent/shop/eu/orders/stats"] = HTTPStatus(code)
    with pytest.raises(SourceError, match=str(code)) as caught:
        admin(server).exists((TOPIC, -1))
    assert caught.value.retryable is retryable
    assert bool(caught.value.hint) is hinted


def test_requests_have_the_login_of_the_client(server: AdminServer) -> None:
    token = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
    basic = "org.apache.pulsar.client.impl.auth.AuthenticationBasic"
    admin(server).exists((TOPIC, -1))
    admin(server, authPluginClassName=token, authParams="token:abc").exists((TOPIC, -1))
    login = json.dumps({"userId": "u", "password": "p"})
    admin(server, authPluginClassName=basic, authParams=login).exists((TOPIC, -1))
    assert server.logins == [None, "Bearer abc", "Basic dTpw"]


def test_address_where_nothing_answers_is_named(server: AdminServer) -> None:
    admin_ = admin(server)
    server.close()
    with pytest.raises(SourceError, match="does not answer") as caught:
        admin_.exists((TOPIC, -1))
    assert caught.value.retryable
    assert caught.value.facts["url"] == server.url


@pytest.mark.parametrize(
    ("path", "answer", "ask"),
    [
        ("persistent/shop/eu", {"a": 1}, lambda admin_: admin_.topics_matching("shop/eu/.*")),
        ("persistent/shop/eu/orders/stats", [], lambda admin_: admin_.consumers((TOPIC, -1), "s")),
        (
            "persistent/shop/eu/orders/stats",
            {"subscriptions": {"s": 1}},
            lambda admin_: admin_.consumers((TOPIC, -1), "s"),
        ),
        ("persistent/shop/eu/orders/internalStats", {"ledgers": [{}]}, lambda admin_: admin_.ledgers((TOPIC, -1))),
        ("namespaces/shop/eu/messageTTL", "soon", lambda admin_: admin_.message_ttl(TOPIC)),
        ("schemas/shop/eu/orders/schema", {}, lambda admin_: admin_.schema_type(TOPIC)),
    ],
)
def test_a_wrong_answer_is_named_with_its_address(
    server: AdminServer, path: str, answer: object, ask: Callable[[PulsarAdmin], object]
) -> None:
    server.answers[path] = answer
    with pytest.raises(SourceError, match=r"an unexpected form: .* should be") as caught:
        ask(admin(server))
    assert caught.value.facts["url"] == f"{server.url}/admin/v2/{path}"


def test_certificate_file_that_does_not_exist_is_a_wrong_setting() -> None:
    admin_ = PulsarAdmin(
        {"pulsar.admin.adminUrl": "https://127.0.0.1:1", "pulsar.client.tlsTrustCertsFilePath": "/no/such/file"}
    )
    with pytest.raises(ConfigError, match="certificate"):
        admin_.exists((TOPIC, -1))


@pytest.mark.parametrize("secret", ["two\nlines", "tökén"])
def test_a_token_that_no_header_can_contain_is_not_shown(server: AdminServer, secret: str) -> None:
    kind = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
    with pytest.raises(ConfigError, match="header") as caught:
        admin(server, authPluginClassName=kind, authParams=f"token:{secret}").exists((TOPIC, -1))
    assert secret not in str(caught.value)
