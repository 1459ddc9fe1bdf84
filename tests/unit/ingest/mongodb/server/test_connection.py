"""Errors of the server as errors that say what to do."""

from __future__ import annotations

import socket
import time

import bson
import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, ConfigurationError, NetworkTimeout, OperationFailure, PyMongoError

from penstock.errors import PenstockError, SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.ingest.mongodb.errors import CursorLost, EventTooLarge, NotAReplicaSet, OplogLost, PostImageMissing
from penstock.ingest.mongodb.server import connection
from penstock.ingest.mongodb.server.address import MongoAddress
from penstock.ingest.mongodb.server.connection import connect
from penstock.ingest.mongodb.server.refusals import refused
from penstock.ingest.patience import patience
from tests.waiting import at_most

SERVER = MongoAddress("db:27017", "cdc")


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (13, MissingGrant, "role read"),
        (18, MissingGrant, "authSource"),
        (280, OplogLost, "--resnapshot"),
        (286, OplogLost, "--resnapshot"),
        (40576, OplogLost, "--resnapshot"),
        (40573, NotAReplicaSet, "rs.initiate()"),
        (10334, EventTooLarge, "exclude the collection"),
        (239, SourceError, "minSnapshotHistoryWindowInSeconds"),
        (43, CursorLost, ""),
        (47, PostImageMissing, "changeStreamPreAndPostImages"),
        (1, SourceError, ""),
    ],
)
def test_error_of_the_server_has_a_hint(code: int, kind: type[PenstockError], hint: str) -> None:
    found = refused(SERVER, OperationFailure("no", code))
    assert type(found) is kind
    assert found.facts["code"] == code
    assert hint in (found.hint or "")
    assert found.retryable == (kind is CursorLost)


@pytest.mark.parametrize(
    "reason",
    [
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)",
        "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required (_ssl.c:2580)",
        "[SSL: SSLV3_ALERT_BAD_CERTIFICATE] sslv3 alert bad certificate (_ssl.c:2580)",
        "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:1006)",
    ],
)
def test_a_certificate_that_is_not_accepted_is_not_waited_for(reason: str) -> None:
    found = refused(SERVER, AutoReconnect(f"db:27017: {reason}"))
    assert not found.retryable
    assert "tlsCertificateKeyFile" in (found.hint or "")


def test_errors_of_the_connection() -> None:
    lost = refused(SERVER, AutoReconnect("broken"))
    assert isinstance(lost, ConnectionLost)
    assert lost.retryable
    assert "connection.options" in (refused(SERVER, ConfigurationError("bad")).hint or "")


def test_a_reason_is_the_sentence_of_the_driver_alone() -> None:
    client: MongoClient[dict[str, object]] = MongoClient("127.0.0.1:1", serverSelectionTimeoutMS=50)
    with client, pytest.raises(PyMongoError) as caught:
        client.admin.command("ping")
    assert "Topology Description" in str(caught.value)
    reason = str(refused(SERVER, caught.value).facts["reason"])
    assert "Connection refused" in reason
    assert not any(noise in reason for noise in ("Topology", "Timeout", "timeouts", "ServerDescription"))
    reply = OperationFailure("no such command", 59, {"ok": 0.0})
    assert str(refused(SERVER, reply).facts["reason"]) == "no such command"


def test_address_shows_no_password() -> None:
    address = MongoAddress("a:1,b:2", "me@x", "p/w", "mongodb", "replicaSet=rs0")
    assert address.uri == "mongodb://me%40x:p%2Fw@a:1,b:2/?replicaSet=rs0"
    assert "p/w" not in repr(address)
    assert address.where == "mongodb://a:1,b:2"


def test_a_question_does_not_wait_for_a_server_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_FIRST_S", 0.5)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nothing listens there
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with at_most(60), patience(0.0), pytest.raises(ConnectionLost) as caught:
            connect(MongoAddress(address, connect_timeout=120.0))
    assert caught.value.facts["reason"] == f"{address}: [Errno 111] Connection refused"


def test_the_log_says_soon_what_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A start gives a server its whole time to answer, which is half a minute."""
    waits: list[float] = []

    def lost(server: MongoAddress, seconds: float) -> MongoClient[dict[str, object]]:
        waits.append(seconds)
        now[0] += seconds
        raise ConnectionLost("cannot reach the server", retryable=True)

    now = [100.0]
    monkeypatch.setattr(connection, "_open", lost)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with pytest.raises(ConnectionLost):
        connect(MongoAddress("db", connect_timeout=30.0))
    assert waits == [connection._FIRST_S, 30.0 - connection._FIRST_S]
    assert caplog.text.count("event=waiting_for_server server=mongodb://db at_most=30s") == 1


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ("", 900_000),
        ("tls=true", 900_000),
        ("replicaSet=rs0&socketTimeoutMS=5000", None),
        ("replicaSet=rs0;sockettimeoutms=5000", None),
    ],
)
def test_a_connection_that_carries_nothing_more_is_lost_after_a_while(options: str, limit: int | None) -> None:
    """Without a limit a reader waits for ever for a server that a proxy on the way has forgotten."""
    assert connection._limit_of_silence(MongoAddress("db", options=options)).get("socketTimeoutMS") == limit


def test_a_server_that_needs_longer_than_the_limit_has_a_hint_at_the_limit() -> None:
    error = refused(MongoAddress("db"), NetworkTimeout("db:27017: timed out"))
    assert error.retryable
    assert "socketTimeoutMS" in (error.hint or "")


def test_an_answer_that_is_no_bson_is_an_error_that_may_pass() -> None:
    with pytest.raises(SourceError, match="cannot be read") as caught, connection._pymongo_errors(SERVER):
        bson.decode(b"\x0e\0\0\0\x02k\0\x02\0\0\0\xc9\0\0")
    assert caught.value.retryable
    assert "use TLS" in (caught.value.hint or "")
