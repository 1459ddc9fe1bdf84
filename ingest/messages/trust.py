"""The certificates that a client of Java is configured to trust, as PEM, which other clients read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError


def trusted(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the certificates in a Java trust store as `ssl.ca.pem` or `ssl.ca.location`."""
    if certificates := properties.get("ssl.truststore.certificates"):
        return {"ssl.ca.pem": certificates}
    location = properties.get("ssl.truststore.location")
    if location is None:
        return {}
    raw = certificate_file(location)
    if properties.get("ssl.truststore.type", "").upper() == "PEM" or b"-----BEGIN" in raw:
        return {"ssl.ca.location": location}
    # Few brokers need it, and every process that asks a broker would import it.
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        store = pkcs12.load_pkcs12(raw, properties.get("ssl.truststore.password", "").encode() or None)
    except ValueError as error:
        raise needs_pkcs12("truststore", location) from error
    # librdkafka reads trusted certificates only as PEM, so certificates of a PKCS12 store are converted.
    return {"ssl.ca.pem": "".join(c.certificate.public_bytes(Encoding.PEM).decode() for c in store.additional_certs)}


def certificate_file(location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(
            "a certificate file cannot be read",
            file=location,
            reason=error.strerror,
            hint="the file must exist, and be readable, on all machines of the job",
        ) from error


def needs_pkcs12(kind: str, location: str) -> ConfigError:
    return ConfigError(
        f"the {kind} is neither PEM nor a PKCS12 file that its password can open",
        file=location,
        hint=f"keytool -importkeystore -srckeystore {location} -destkeystore {kind}.p12 -deststoretype PKCS12",
    )
