"""Java's trust stores as PEM."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.oid import NameOID

from penstock.errors import ConfigError
from penstock.ingest.messages.trust import trusted


def certificate(name: str) -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    dated = made.not_valid_before(start).not_valid_after(start + dt.timedelta(days=3650))
    return dated.sign(key, hashes.SHA256())


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, list[x509.Certificate]]:
    """A PKCS12 trust store with two certificates, and its password `changeit`."""
    found = [certificate("one"), certificate("two")]
    raw = pkcs12.serialize_key_and_certificates(None, None, None, found, BestAvailableEncryption(b"changeit"))
    path = tmp_path / "trust.p12"
    path.write_bytes(raw)
    return path, found


def test_without_a_store_the_client_keeps_its_own() -> None:
    assert trusted({"ssl.keystore.location": "/k"}) == {}


def test_certificates_given_as_text_win() -> None:
    given = {"ssl.truststore.certificates": "PEM", "ssl.truststore.location": "/no/such"}
    assert trusted(given) == {"ssl.ca.pem": "PEM"}


@pytest.mark.parametrize("kind", ["PEM", "pem", ""])
def test_files_of_pem_are_used_as_they_are(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(pem(certificate("one")))
    given = {"ssl.truststore.location": str(path), "ssl.truststore.type": kind}
    assert trusted(given) == {"ssl.ca.location": str(path)}


def test_all_certificates_of_a_store_are_trusted(store: tuple[Path, list[x509.Certificate]]) -> None:
    path, certificates = store
    found = trusted({"ssl.truststore.location": str(path), "ssl.truststore.password": "changeit"})
    assert sorted(map(pem, x509.load_pem_x509_certificates(found["ssl.ca.pem"].encode()))) == sorted(
        map(pem, certificates)
    )


@pytest.mark.parametrize("password", ["wrong", ""])
def test_store_with_another_password_is_refused_with_a_conversion(
    password: str, store: tuple[Path, list[x509.Certificate]]
) -> None:
    path, _ = store
    with pytest.raises(ConfigError, match="neither PEM nor a PKCS12") as caught:
        trusted({"ssl.truststore.location": str(path), "ssl.truststore.password": password})
    assert f"-srckeystore {path}" in str(caught.value.hint)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        trusted({"ssl.truststore.location": str(tmp_path / "gone")})
    assert caught.value.facts["file"] == str(tmp_path / "gone")
