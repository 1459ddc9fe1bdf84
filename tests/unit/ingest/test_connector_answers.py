from __future__ import annotations

import pytest

from penstock.ingest.connector_answers import is_on_this_machine, unverified
from penstock.ingest.kafka.client import hosts
from penstock.ingest.kafka.properties import is_verified as kafka_is_verified
from penstock.ingest.mongodb.server.address import MongoAddress
from penstock.ingest.pulsar.option_names import INSECURE, SERVICE_URL
from penstock.ingest.pulsar.properties import is_verified as pulsar_is_verified

HERE = ["localhost", "Localhost", "localhost.", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("host", [*HERE, "/run/postgresql", "@postgresql"])
def test_hosts_of_this_machine_need_no_verification(host: str) -> None:
    assert is_on_this_machine(host)
    assert unverified([host], "not verified", "verify it") == []


@pytest.mark.parametrize("host", ["db", "10.0.0.1", "localhost.example.com", "2001:db8::1", "::ffff:10.0.0.1", ""])
def test_other_hosts_that_are_not_verified_are_a_warning(host: str) -> None:
    (finding,) = unverified(["localhost", host], "ssl mode preferred", "verify it")
    assert (finding.level, finding.fix) == ("warning", "verify it")
    assert "can read the connection, or change what arrives" in finding.message


@pytest.mark.parametrize(
    ("scheme", "options", "verified"),
    [
        ("mongodb", "", False),
        ("mongodb", "replicaSet=rs0&tls=true", True),
        ("mongodb", "ssl=true", True),
        ("mongodb", "tls=true&tlsInsecure=true", False),
        ("mongodb", "TLS=true&tlsAllowInvalidCertificates=TRUE", False),
        ("mongodb+srv", "", True),
        ("mongodb+srv", "tls=false", False),
    ],
)
def test_options_of_mongodb_verify_the_server(scheme: str, options: str, *, verified: bool) -> None:
    address = MongoAddress("a:27017,[::1]:27018", scheme=scheme, options=options)
    assert address.is_verified == verified
    assert address.hosts_alone == ["a", "::1"]


def test_a_socket_of_mongodb_is_on_this_machine() -> None:
    address = MongoAddress("%2Ftmp%2Fmongodb-27017.sock")
    assert unverified(address.hosts_alone, "not verified", "verify it") == []


@pytest.mark.parametrize(
    ("properties", "verified"),
    [
        ({" security.protocol": "${PROTOCOL}"}, True),
        ({}, False),
        ({"security.protocol": "SASL_PLAINTEXT"}, False),
        ({"security.protocol": "sasl_ssl"}, True),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}, False),
    ],
)
def test_properties_of_kafka_verify_the_brokers(
    properties: dict[str, str], *, verified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROTOCOL", "SSL")
    assert kafka_is_verified(properties) == verified
    assert hosts(properties | {"bootstrap.servers": "SSL://a:9093, b"}) == ["a", "b"]


@pytest.mark.parametrize(
    ("url", "insecure", "verified"),
    [
        ("pulsar://a:6650", "false", False),
        ("pulsar+ssl://a:6651", "false", True),
        ("pulsar+ssl://a:6651", "true", False),
        ("pulsar+ssl://a:6651", "${ANY:-true}", False),
    ],
)
def test_options_of_pulsar_verify_the_brokers(url: str, insecure: str, *, verified: bool) -> None:
    assert pulsar_is_verified({SERVICE_URL: url, INSECURE: insecure}) == verified
