from __future__ import annotations

from pathlib import Path

import pulsar
import pytest

from penstock.errors import ConfigError
from penstock.ingest.pulsar.properties import client_arguments, credentials, queue_size, token, without_effect
from penstock.references import masked

CLASS = "pulsar.client.authPluginClassName"
PARAMS = "pulsar.client.authParams"
PACKAGE = "org.apache.pulsar.client.impl.auth"


def test_options_become_arguments_of_the_client() -> None:
    given = {
        "pulsar.client.operationTimeoutMs": "1500",
        "pulsar.client.tlsTrustCertsFilePath": "/ca.pem",
        "pulsar.client.tlsAllowInsecureConnection": "True",
        "pulsar.client.numIoThreads": "2",
    }
    assert client_arguments(given) == {
        "operation_timeout_seconds": 2,
        "tls_trust_certs_file_path": "/ca.pem",
        "tls_allow_insecure_connection": True,
        "io_threads": 2,
    }


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("AuthenticationToken", "token:a.b:c", ("token", {"token": "a.b:c"})),
        ("AuthenticationToken", "a.b.c", ("token", {"token": "a.b.c"})),
        ("AuthenticationToken", "file:///run/token", ("token", {"file": "///run/token"})),
        ("AuthenticationTls", "tlsCertFile:/c,tlsKeyFile:/k", ("tls", {"tlsCertFile": "/c", "tlsKeyFile": "/k"})),
        ("AuthenticationBasic", '{"userId": "u", "password": "p"}', ("basic", {"userId": "u", "password": "p"})),
        ("oauth2.AuthenticationOAuth2", '{"issuerUrl": "http://i"}', ("oauth2", {"issuerUrl": "http://i"})),
    ],
)
def test_logins_have_the_classes_and_parameters_of_java(kind: str, text: str, expected: object) -> None:
    assert credentials({CLASS: f"{PACKAGE}.{kind}", PARAMS: text}) == expected


@pytest.mark.parametrize(
    "given",
    [
        {CLASS: f"{PACKAGE}.AuthenticationToken", PARAMS: "token:x"},
        {CLASS: f"{PACKAGE}.AuthenticationTls", PARAMS: "tlsCertFile:/c,tlsKeyFile:/k"},
        {CLASS: f"{PACKAGE}.AuthenticationBasic", PARAMS: '{"userId": "u", "password": "p"}'},
    ],
)
def test_a_login_becomes_one_of_the_client(given: dict[str, str]) -> None:
    assert isinstance(client_arguments(given)["authentication"], pulsar.Authentication)


def test_a_token_in_a_file_is_read_at_each_login(tmp_path: Path) -> None:
    place = tmp_path / "token"
    place.write_text("first\n")
    assert token({"file": f"//{place}"}) == "first"
    place.write_text("second")
    assert token({"file": f"//{place}"}) == "second"
    with pytest.raises(ConfigError, match="token cannot be read"):
        token({"file": f"//{place}.gone"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({CLASS: "acme.AuthenticationMagic"}, "not supported"),
        ({PARAMS: "token:x"}, "needs pulsar.client.authPluginClassName"),
        ({CLASS: f"{PACKAGE}.AuthenticationToken"}, "contains no token"),
        ({CLASS: f"{PACKAGE}.AuthenticationBasic", PARAMS: "{"}, "not JSON"),
        ({"pulsar.client.useKeyStoreTls": "true"}, "PEM files only"),
        ({"pulsar.client.numIoThreads": "two"}, "cannot be 'two'"),
        ({"pulsar.client.tlsAllowInsecureConnection": "yes"}, "cannot be 'yes'"),
    ],
)
def test_options_that_cannot_work_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        client_arguments(given)


def test_options_without_effect_are_listed() -> None:
    given = {"pulsar.client.serviceUrl": "x", "pulsar.client.memoryLimitBytes": "1", "pulsar.consumer.ackGroup": "1"}
    assert without_effect(given) == ["pulsar.client.memoryLimitBytes", "pulsar.consumer.ackGroup"]


def test_the_queue_of_a_reader_has_a_default() -> None:
    assert queue_size({}, 7) == 7
    assert queue_size({"pulsar.consumer.receiverQueueSize": "50"}, 7) == 50


def test_the_parameters_of_a_login_are_masked() -> None:
    assert "secret-token" not in masked(PARAMS, "token:secret-token")
    assert "secret-token" not in masked("pulsar.client.authParamMap", "token:secret-token")
