"""The TLS settings of a connection to MySQL."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from penstock.ingest.mysql.server.address import Tls


@pytest.mark.parametrize(
    ("mode", "verify", "checks_name"),
    [
        ("preferred", ssl.CERT_NONE, False),
        ("required", ssl.CERT_NONE, False),
        ("verify-ca", ssl.CERT_REQUIRED, False),
        ("verify-identity", ssl.CERT_REQUIRED, True),
    ],
)
def test_only_modes_named_verify_check_the_server(mode: Any, verify: ssl.VerifyMode, checks_name: bool) -> None:
    context = Tls(mode).context()
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (verify, checks_name)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_connection_without_verification_loads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: loaded.append("certificates"))
    Tls("required").context()
    assert loaded == []
    Tls("verify-ca").context()
    assert loaded == ["certificates"]
