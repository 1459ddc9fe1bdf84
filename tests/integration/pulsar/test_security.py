"""Logins by token and TLS as users of Java clients write them, against a broker that requires both."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import ipaddress
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pulsar
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from penstock.errors import SourceError
from penstock.ingest.patience import patience
from penstock.pipelines.job.source_request import open_source
from tests.here import run
from tests.integration.pulsar.conftest import Broker
from tests.integration.pulsar.sync import Sync
from tests.servers import launch

pytestmark = pytest.mark.pulsar

PACKAGE = "org.apache.pulsar.client.impl.auth"


def token(role: str, key: bytes) -> str:
    """Return a JSON web token of this role, signed by the key."""

    def text(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head = text(json.dumps({"alg": "HS256"}).encode()) + "." + text(json.dumps({"sub": role}).encode())
    return f"{head}.{text(hmac.new(key, head.encode(), hashlib.sha256).digest())}"


def certificate() -> tuple[str, str]:
    """Return a certificate for 127.0.0.1 that is its own authority, and its key: the broker reads RSA keys only."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    hosts = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(hosts, critical=False)
        .sign(key, hashes.SHA256())
    )
    return (
        made.public_bytes(Encoding.PEM).decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )


@dataclass
class Guarded:
    broker: Broker
    folder: Path
    key: bytes

    @property
    def tls_url(self) -> str:
        return f"pulsar+ssl://127.0.0.1:{self.broker.port + 3}"

    def conf(self, role_token: str) -> dict[str, str]:
        return {
            "pulsar__client__serviceUrl": self.tls_url,
            "pulsar__client__tlsTrustCertsFilePath": f"{self.folder}/ca.pem",
            "pulsar__client__authPluginClassName": f"{PACKAGE}.AuthenticationToken",
            "pulsar__client__authParams": f"token:{role_token}",
        }

    def send(self, topic: str, *values: str) -> None:
        client = pulsar.Client(
            self.tls_url,
            authentication=pulsar.AuthenticationToken(token("admin", self.key)),
            tls_trust_certs_file_path=f"{self.folder}/ca.pem",
            logger=logging.getLogger("penstock.pulsar"),
        )
        producer = client.create_producer(topic)
        for value in values:
            producer.send(value.encode())
        client.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder, key = tmp_path_factory.mktemp("guarded"), b"k" * 32
    shown, private = certificate()
    for name, text in {"ca.pem": shown, "broker.pem": shown, "broker.key": private}.items():
        (folder / name).write_text(text)
    (folder / "secret").write_bytes(key)
    port, own_token = launch.free_port(), token("admin", key)
    options = [
        "authenticationEnabled=true",
        "authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        f"tokenSecretKey=file://{folder}/secret",
        "authorizationEnabled=true",
        "superUserRoles=admin",
        f"brokerClientAuthenticationPlugin={PACKAGE}.AuthenticationToken",
        f"brokerClientAuthenticationParameters=token:{own_token}",
        f"brokerServicePortTls={port + 3}",
        f"tlsCertificateFilePath={folder}/broker.pem",
        f"tlsKeyFilePath={folder}/broker.key",
        f"tlsTrustCertsFilePath={folder}/ca.pem",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULSAR_TOKEN", own_token)
        launch.start("pulsar", folder / "data", port, *options)
    try:
        yield Guarded(Broker(port, folder / "data"), folder, key)
    finally:
        launch.stop("pulsar", folder / "data")


def test_token_and_tls_login(guarded: Guarded, tmp_path: Path) -> None:
    sync = Sync(guarded.broker, tmp_path, "json")
    guarded.send("orders", '{"id": 1}')
    secret = tmp_path / "token"
    secret.write_text(token("admin", guarded.key))
    conf = guarded.conf("") | {"pulsar__client__authParams": f"file://{secret}"}
    spec = sync.spec("orders", "--table", "orders", **conf)
    run(spec)
    assert sync.ids("orders") == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pulsar__client__authParams": "token:e30.e30.e30"}, "answers 401"),
        ({"pulsar__client__authPluginClassName": "", "pulsar__client__authParams": ""}, "answers 401"),
        ({"pulsar__client__tlsTrustCertsFilePath": "", "pulsar__admin__adminUrl": ""}, "ConnectError|TimeOut"),
    ],
)
def test_a_wrong_login_is_reported_at_once(
    guarded: Guarded, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    sync = Sync(guarded.broker, tmp_path, "json")
    conf = guarded.conf(token("admin", guarded.key)) | {"pulsar__client__operationTimeoutMs": "3000"} | change
    spec = sync.spec("orders", "--table", "orders", **conf)
    with patience(0.0), pytest.raises(SourceError, match=message):
        open_source(spec).available()


def test_a_role_without_permission_is_refused(guarded: Guarded, tmp_path: Path) -> None:
    sync = Sync(guarded.broker, tmp_path, "json")
    guarded.send("orders", '{"id": 1}')
    conf = guarded.conf(token("nobody", guarded.key)) | {"pulsar__admin__adminUrl": ""}
    with patience(0.0), pytest.raises(SourceError, match="rejected the login"):
        open_source(sync.spec("orders", "--table", "orders", **conf)).available()
