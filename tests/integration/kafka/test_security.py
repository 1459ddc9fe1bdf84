"""SASL and TLS as users of Java clients write them, against a broker that asks for both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from penstock.errors import ConfigError, SourceError
from tests.here import run
from tests.integration.kafka.certificates import PASSWORD, Identity, issued, java_truststore
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.sync import Sync
from tests.servers import launch

pytestmark = pytest.mark.kafka

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@dataclass
class Guarded:
    """`open` is the broker as its keeper reaches it; the ports are those of the listeners that ask."""

    open: Broker
    ports: dict[str, int]
    folder: Path
    client: Identity

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def address(self, protocol: str) -> dict[str, str]:
        return {
            "properties_bootstrap_servers": f"127.0.0.1:{self.ports[protocol]}",
            "properties_security_protocol": protocol,
        }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = issued("authority")
    (folder / "ca.pem").write_text(authority.chain_pem)
    store = issued("broker", authority).write_pkcs12(folder / "broker.p12", authority)
    port = launch.free_port()
    ports = {name: launch.free_port() for name in ("SASL_PLAINTEXT", "SASL_SSL", "SSL")}
    kinds = ("PLAINTEXT", *ports)
    shown = ",".join(f"{name}://127.0.0.1:{number}" for name, number in (("PLAINTEXT", port), *ports.items()))
    options = [
        f"listeners={shown},CONTROLLER://127.0.0.1:{port + 1}",
        f"advertised.listeners={shown}",
        f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{','.join(f'{kind}:{kind}' for kind in kinds)}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        *(
            f"listener.name.{name}.{mechanism}.sasl.jaas.config={module};"
            for name in ("sasl_plaintext", "sasl_ssl")
            for mechanism, module in (("plain", f'{PLAIN} user_alice="wonder=land;"'), ("scram-sha-512", SCRAM))
        ),
        f"ssl.keystore.location={store}",
        "ssl.keystore.type=PKCS12",
        f"ssl.keystore.password={PASSWORD}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={folder / 'ca.pem'}",
        "listener.name.ssl.ssl.client.auth=required",
    ]
    launch.start("kafka", folder / "data", port, *options)
    try:
        broker = Broker(port, folder / "data")
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        users = broker.admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", info, b'build"er')])
        users["bob"].result()
        yield Guarded(broker, ports, folder, issued("client", authority))
    finally:
        launch.stop("kafka", folder / "data")


def carried(guarded: Guarded, folder: Path, protocol: str, **properties: str) -> list[dict[str, object]]:
    topic = guarded.open.topic()
    guarded.open.send(topic, json.dumps({"id": 1}))
    sync = Sync(guarded.open, folder, "json")
    given = {f"properties_{name}": value for name, value in properties.items()}
    run(sync.spec(topic, "--table", "t", **guarded.address(protocol), **given))
    return sync.rows("t")


def login(module: str, user: str, password: str) -> str:
    quoted = password.replace('"', '\\"')
    return f'{module} username="{user}" password="{quoted}";'


def test_a_plain_login_as_in_java_with_a_password_from_the_environment(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALICES_PASSWORD", "wonder=land;")
    jaas = login(PLAIN, "alice", "${ALICES_PASSWORD}")
    assert carried(guarded, tmp_path, "SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas) == [{"id": "1"}]


def test_a_scram_login_over_tls_that_trusts_a_java_store(guarded: Guarded, tmp_path: Path) -> None:
    store = java_truststore(tmp_path / "trust.p12", guarded.authority)
    login_ = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": login(SCRAM, "bob", 'build"er')}
    trust = {"ssl_truststore_location": str(store), "ssl_truststore_password": PASSWORD}
    assert carried(guarded, tmp_path, "SASL_SSL", **login_, **trust) == [{"id": "1"}]


@pytest.mark.parametrize("form", ["PKCS12", "PKCS12 named .jks", "PEM file", "PEM texts"])
def test_a_client_certificate_works_in_all_formats_of_java(guarded: Guarded, tmp_path: Path, form: str) -> None:
    authority = Identity(guarded.client.key, guarded.client.certificate)
    name = "client.jks" if "jks" in form else "client.p12"
    trust = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(guarded.authority)}
    match form:
        case "PEM texts":
            trust = {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": guarded.authority.read_text()}
            chain, key = guarded.client.chain_pem, guarded.client.key_pem
            own = {"ssl_keystore_type": "PEM", "ssl_keystore_certificate_chain": chain, "ssl_keystore_key": key}
        case "PEM file":
            (tmp_path / "client.pem").write_text(guarded.client.key_pem + guarded.client.chain_pem)
            own = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(tmp_path / "client.pem")}
        case _:
            store = guarded.client.write_pkcs12(tmp_path / name, authority)
            own = {"ssl_keystore_location": str(store), "ssl_keystore_password": PASSWORD}
    assert carried(guarded, tmp_path, "SSL", **trust, **own) == [{"id": "1"}]


def test_a_wrong_password_is_reported_at_once(guarded: Guarded, tmp_path: Path) -> None:
    jaas = login(PLAIN, "alice", "wonder")
    with pytest.raises(SourceError, match="uthentication") as refused:
        carried(guarded, tmp_path, "SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas)
    assert not refused.value.retryable
    assert "wonder" not in str(refused.value)


def test_an_untrusted_broker_is_reported_at_once(guarded: Guarded, tmp_path: Path) -> None:
    (tmp_path / "other.pem").write_text(issued("somebody else").chain_pem)
    trust = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(tmp_path / "other.pem")}
    with pytest.raises(SourceError, match="certificate") as refused:
        carried(guarded, tmp_path, "SSL", **trust)
    assert not refused.value.retryable


def test_a_jks_store_is_refused_with_the_command_that_converts_it(guarded: Guarded, tmp_path: Path) -> None:
    store = java_truststore(tmp_path / "trust.jks", guarded.authority, "JKS")
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        carried(guarded, tmp_path, "SSL", ssl_truststore_location=str(store), ssl_truststore_password=PASSWORD)
