"""The properties of the JDBC driver about TLS mean the modes of this client, and misspelt ones are refused."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.ingest.mysql.actions import conf_section

CONF = {"hostname": "db", "username": "cdc", "password": "cdc", "database-name": "shop"}


def ssl(**properties: str) -> dict[str, object] | None:
    given = {f"jdbc.properties.{name}": value for name, value in properties.items()}
    section = conf_section(CONF | given, names_table=False)
    found: dict[str, object] | None = section.get("ssl")
    return found


@pytest.mark.parametrize("name", ["ssl-mode", "sslmod", "ssl_Mode", "use_ssl", "allowPublicKeyRetreival"])
def test_a_misspelt_property_is_refused_as_the_connection_would_lack_its_protection(name: str) -> None:
    with pytest.raises(ConfigError, match=f"has no option jdbc.properties.{name}") as caught:
        ssl(**{name: "REQUIRED"})
    assert (caught.value.hint or "").startswith("did you mean jdbc.properties.")


def test_other_properties_of_the_driver_have_no_effect_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert ssl(sslCert="x", socketTimeout="5", trustServerCertificate="true") is None
    for name in ("sslCert", "socketTimeout", "trustServerCertificate"):
        assert f"event=mysql_conf_without_effect key=jdbc.properties.{name}" in caplog.text


@pytest.mark.parametrize(
    ("properties", "mode"),
    [
        ({"sslMode": "required"}, "required"),
        ({"SSLMODE": "VERIFY_CA", "useSSL": "false"}, "verify-ca"),
        ({"useSSL": "false", "requireSSL": "true"}, "disabled"),
        ({"useSSL": "true"}, "preferred"),
        ({"useSSL": "true", "requireSSL": "true"}, "required"),
        ({"requireSSL": "true"}, "required"),
        ({"useSSL": "true", "verifyServerCertificate": "true"}, "verify-ca"),
        ({"verifyServerCertificate": "false"}, "preferred"),
        ({"useSSL": "YES", "requireSSL": "yes"}, "required"),
        ({"useSSL": "no"}, "disabled"),
    ],
)
def test_properties_about_tls_are_a_mode(properties: dict[str, str], mode: str) -> None:
    assert ssl(**properties) == {"mode": mode}


@pytest.mark.parametrize("name", ["useSSL", "requireSSL", "verifyServerCertificate", "allowPublicKeyRetrieval"])
def test_a_flag_with_another_word_than_those_of_the_driver_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} cannot be 'on'"):
        ssl(**{name: "on"})
