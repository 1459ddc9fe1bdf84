"""The arguments of a Pulsar client, from the options of Flink's connector, which are the Java client's."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pulsar

from penstock.errors import ConfigError
from penstock.ingest.pulsar.option_names import (
    ACTED_ON,
    AUTH_CLASS,
    AUTH_MAP,
    AUTH_PARAMS,
    CERTIFICATE,
    CHECKS_HOST,
    CONNECTION_TIMEOUT,
    INSECURE,
    IO_THREADS,
    KEY,
    LISTENER,
    LISTENER_THREADS,
    LOOKUPS,
    OPERATION_TIMEOUT,
    QUEUE,
    SERVICE_URL,
    STORES,
    TRUSTED,
)
from penstock.references import resolve

log = logging.getLogger(__name__)


def _flag(text: str) -> bool:
    if text.strip().lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.strip().lower() == "true"


def _seconds(text: str) -> int:
    return max(1, -(-int(text) // 1000))


_ARGUMENTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    OPERATION_TIMEOUT: ("operation_timeout_seconds", _seconds),
    CONNECTION_TIMEOUT: ("connection_timeout_ms", int),
    IO_THREADS: ("io_threads", int),
    LISTENER_THREADS: ("message_listener_threads", int),
    LOOKUPS: ("concurrent_lookup_requests", int),
    LISTENER: ("listener_name", str),
    TRUSTED: ("tls_trust_certs_file_path", str),
    CERTIFICATE: ("tls_certificate_file_path", str),
    KEY: ("tls_private_key_file_path", str),
    INSECURE: ("tls_allow_insecure_connection", _flag),
    CHECKS_HOST: ("tls_validate_hostname", _flag),
}


def without_effect(properties: Mapping[str, str]) -> list[str]:
    """Return the options that are not acted on."""
    return sorted(properties.keys() - ACTED_ON)


def is_verified(properties: Mapping[str, str]) -> bool:
    """Return whether the certificates of brokers are checked, as by default with TLS."""
    encrypts = resolve(properties[SERVICE_URL]).strip().startswith(("pulsar+ssl:", "https:"))
    return encrypts and resolve(properties.get(INSECURE, "false")).strip().lower() != "true"


def client_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of the client beside its URL, with references to secrets resolved."""
    given = {name.strip(): resolve(value) for name, value in properties.items()}
    for name in sorted(STORES & given.keys()):
        if given[name].lower() != "false":
            raise ConfigError(
                f"{name} is not supported: the client reads PEM files only",
                hint=f"convert the store with keytool and openssl, and set {TRUSTED}, {CERTIFICATE} and {KEY}",
            )
    made = {name: _converted(key, given[key], kind) for key, (name, kind) in _ARGUMENTS.items() if key in given}
    login = _login(given)
    return made | ({"authentication": login} if login is not None else {})


def queue_size(properties: Mapping[str, str], usual: int) -> int:
    """Return how many messages a reader fetches in advance."""
    return int(_converted(QUEUE, properties[QUEUE], int)) if QUEUE in properties else usual


def _converted(key: str, text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError as error:
        raise ConfigError(
            f"{key} cannot be {text!r}", hint="write a number, or true or false, as in Pulsar's Java client"
        ) from error


def credentials(given: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
    """Return the kind of login, `token`, `tls`, `oauth2` or `basic`, and its parameters; None without a login."""
    name = given.get(AUTH_CLASS, "").strip()
    if not name:
        if AUTH_PARAMS in given or AUTH_MAP in given:
            raise ConfigError(f"{AUTH_PARAMS} needs {AUTH_CLASS}", hint=f"the classes are {', '.join(_KINDS)}")
        return None
    kind = _KINDS.get(name.rpartition(".")[2].lower())
    if kind is None:
        raise ConfigError(
            f"{AUTH_CLASS} {name!r} is not supported", hint=f"the classes are {', '.join(sorted(_CLASSES))}"
        )
    return kind, _parameters(given)


_KINDS = {
    "authenticationtoken": "token",
    "authenticationtls": "tls",
    "authenticationoauth2": "oauth2",
    "authenticationbasic": "basic",
}
_CLASSES = ("AuthenticationToken", "AuthenticationTls", "AuthenticationOAuth2", "AuthenticationBasic")


def _parameters(given: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters, which are JSON or `name:value,name:value`; a token is all that follows its colon."""
    text = given.get(AUTH_PARAMS, given.get(AUTH_MAP, "")).strip()
    if text.startswith("{"):
        try:
            return {str(name): str(value) for name, value in json.loads(text).items()}
        except ValueError as error:
            raise ConfigError(f"{AUTH_PARAMS} is not JSON", hint='write {"name": "value"}') from error
    if text.startswith(("token:", "file:")):
        name, _, value = text.partition(":")
        return {name: value}
    pairs = [part.partition(":") for part in text.split(",") if part.strip()]
    found = {name.strip(): value.strip() for name, _, value in pairs}
    return found if text.count(":") else {"token": text} if text else {}


def token(parameters: Mapping[str, str]) -> str:
    """Return the token, from its text or its file."""
    if "file" in parameters:
        place = parameters["file"].removeprefix("//")
        try:
            return Path(place).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(
                "the file of the token cannot be read",
                file=place,
                reason=error.strerror,
                hint="the file must exist, and be readable, on all machines of the job",
            ) from error
    return _needed(parameters, "token")


def _needed(parameters: Mapping[str, str], name: str) -> str:
    if not parameters.get(name):
        raise ConfigError(
            f"{AUTH_PARAMS} contains no {name}", hint="token:..., file:///path or tlsCertFile:...,tlsKeyFile:..."
        )
    return parameters[name]


def _login(given: Mapping[str, str]) -> pulsar.Authentication | None:
    found = credentials(given)
    if found is None:
        return None
    kind, parameters = found
    match kind:
        case "token":
            # A function is called at each login, so a file whose token is renewed is read again.
            token(parameters)
            return pulsar.AuthenticationToken(lambda: token(parameters))
        case "tls":
            return pulsar.AuthenticationTLS(_needed(parameters, "tlsCertFile"), _needed(parameters, "tlsKeyFile"))
        case "basic":
            return pulsar.AuthenticationBasic(_needed(parameters, "userId"), _needed(parameters, "password"))
    names = {"issuerUrl": "issuer_url", "privateKey": "private_key"}
    return pulsar.AuthenticationOauth2(json.dumps({names.get(name, name): value for name, value in parameters.items()}))
