"""The properties of a Kafka client, translated from names of the Java client to names of librdkafka."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from penstock.ingest.messages.trust import certificate_file, needs_pkcs12, trusted
from penstock.references import resolve

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from collections.abc import Mapping

# Properties that Penstock sets or that concern only the Java client: logged, then left out.
_LEFT_OUT = re.compile(
    r"(key|value)\.deserializer|enable\.auto\.(commit|offset\.store)|auto\.(offset\.reset|commit\.interval\.ms)|"
    r"max\.poll\.records|partition\.assignment\.strategy|interceptor\.classes|metric.*|default\.api\.timeout\.ms|"
    r"request\.timeout\.ms|receive\.buffer\.bytes|send\.buffer\.bytes|exclude\.internal\.topics|group\.protocol|"
    r"sasl\.(login|client)\..*|ssl\.(trustmanager|keymanager|secure\.random|provider|protocol|enabled).*|"
    r"flink\..*|scan\..*|partition\.discovery\.interval\.ms|client\.id\.prefix|commit\.offsets\.on\.checkpoint"
)
_JAVA_NAMES = {"fetch.max.wait.ms": "fetch.wait.max.ms", "max.partition.fetch.bytes": "fetch.message.max.bytes"}
# Properties that are translated together: the trusted certificates, and the own certificate with the login.
_TRUST = {"ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "ssl.truststore.certificates"}
_OWN = {
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "sasl.jaas.config",
}
_TLS = {"security.protocol", "enable.ssl.certificate.verification"}
_JKS = bytes.fromhex("feedfeed")


def client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties for the properties of a Java client, with references to secrets resolved."""
    given = {name.strip(): resolve(value) for name, value in properties.items()}
    translated: dict[str, str] = {}
    for name, value in given.items():
        if name in _TRUST | _OWN:
            continue
        if _LEFT_OUT.fullmatch(name):
            log.debug("event=kafka_property_left_out name=%s", name)
        elif name == "ssl.endpoint.identification.algorithm":
            # An empty value switches the check of host names off in the Java client. librdkafka calls that "none".
            translated[name] = value or "none"
        else:
            translated[_JAVA_NAMES.get(name, name)] = value
    translated |= _login(given.get("sasl.jaas.config", "")) | trusted(given) | _own_certificate(given)
    return translated


def is_verified(properties: Mapping[str, str]) -> bool:
    """Return whether the certificates of brokers are checked, as by default with TLS."""
    given = {name.strip(): resolve(value).strip().lower() for name, value in properties.items() if name.strip() in _TLS}
    checks = given.get("enable.ssl.certificate.verification", "true") == "true"
    return checks and given.get("security.protocol", "") in {"ssl", "sasl_ssl"}


def _login(jaas: str) -> dict[str, str]:
    # The login module's options are the quoted values of the JAAS line. Its name decides their names in librdkafka.
    words = dict(re.findall(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"', jaas))
    if "Krb5LoginModule" in jaas:
        names = {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"}
    elif "OAuthBearerLoginModule" in jaas:
        names = {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
        }
    else:
        names = {"username": "sasl.username", "password": "sasl.password"}
    login = {names[word]: text.replace('\\"', '"') for word, text in words.items() if word in names}
    return login | ({"sasl.oauthbearer.method": "oidc"} if "OAuthBearerLoginModule" in jaas else {})


def _own_certificate(properties: Mapping[str, str]) -> dict[str, str]:
    location = properties.get("ssl.keystore.location")
    is_pem = properties.get("ssl.keystore.type", "").upper() == "PEM"
    # One file with both certificate and key, as in the Java client.
    if location is not None and is_pem:
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if location is not None:
        # The older key stores of Java, which OpenSSL cannot read. PKCS12 is passed on unchanged.
        if certificate_file(location).startswith(_JKS):
            raise needs_pkcs12("keystore", location)
        return {"ssl.keystore.location": location}
    if not is_pem:
        return {}
    names = {"ssl.keystore.certificate.chain": "ssl.certificate.pem", "ssl.keystore.key": "ssl.key.pem"}
    return {names[name]: properties[name] for name in names if name in properties}
