"""The options of a store: the names that are accepted, and their conversion to obstore's configuration.

Paimon's and Hadoop's names for the same setting are all accepted: `s3.access-key`, `s3a.access-key`,
`fs.s3a.access.key`. A misspelt name is refused before the store is contacted.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterable, Mapping

from penstock.errors import ConfigError, nearest

log = logging.getLogger(__name__)

S3_PREFIXES = ("fs.s3a.", "fs.s3.", "s3a.", "s3.")
_S3_NAMES = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint": "endpoint",
    "endpoint.region": "region",
    "region": "region",
}
_ACCEPTED_S3_NAMES = (*_S3_NAMES, "aws.credentials.provider", "path.style.access", "connection.ssl.enabled")
_OAUTH = "fs.azure.account.oauth"
# How Hadoop's client logs in as an application or an identity of Microsoft Entra.
_AZURE_LOGIN = (
    "fs.azure.account.auth.type",
    f"{_OAUTH}.provider.type",
    f"{_OAUTH}2.client.id",
    f"{_OAUTH}2.client.secret",
    f"{_OAUTH}2.client.endpoint",
    f"{_OAUTH}2.msi.tenant",
    f"{_OAUTH}2.msi.endpoint",
    f"{_OAUTH}2.msi.authority",
    f"{_OAUTH}2.token.file",
)
# The options of obstore's client for those that begin with `fs.azure.account.oauth2.`
_AZURE_LOGIN_NAMES = {
    "client.id": "client_id",
    "client.secret": "client_secret",
    "msi.tenant": "tenant_id",
    "msi.endpoint": "msi_endpoint",
    "token.file": "federated_token_file",
}
_AZURE_PROVIDERS = ("ClientCredsTokenProvider", "MsiTokenProvider", "WorkloadIdentityTokenProvider")
_ENDPOINT = re.compile(r"(?P<host>https?://[^/]+)/(?P<tenant>[^/]+)/oauth2/(v2\.0/)?token/?")
_PUBLIC_LOGIN = "https://login.microsoftonline.com"
_ACCEPTED = frozenset(
    {
        *(prefix + name for prefix in S3_PREFIXES for name in _ACCEPTED_S3_NAMES),
        "fs.gs.auth.service.account.json.keyfile",
        "google.cloud.auth.service.account.json.keyfile",
        "fs.azure.account.key",
        "fs.azure.sas.fixed.token",
        *_AZURE_LOGIN,
        "security.kerberos.login.principal",
        "security.kerberos.login.keytab",
        "local.sync",
    }
)
# Names that end with an account, or that only the store's client can check.
OBSTORE = "object-store."
_ACCEPTED_PREFIXES = (
    "fs.azure.account.key.",
    "fs.azure.sas.fixed.token.",
    *(f"{name}." for name in _AZURE_LOGIN),
    "fs.viewfs.",
    "hadoop.",
    OBSTORE,
)
_FAMILIES = ("s3", "fs.", "gs.", "google.cloud.", "azure.", "security.kerberos.", "local.", "object.", "objectstore.")
# Tuning of Hadoop's own client. Other clients have no such settings and work without them.
_TUNING_WORDS = """
    attempts block bucket buffer bulk change committer connection directory etag executor experimental fast impl
    input list max metadatastore multiobjectdelete multipart optimized paging prefetch readahead retry s3guard
    select signing socket ssl threads user vectored
"""
_TUNING = frozenset(_TUNING_WORDS.split())
_NEAR = 0.85


def check_known(names: Iterable[str]) -> None:
    """Raise ConfigError for a name that resembles an accepted one.

    Log a warning for other unknown names that look like a store option.
    """
    for name in names:
        plain = name.lower().replace("-", ".")
        if _is_accepted(name) or not plain.startswith(_FAMILIES):
            continue
        # An option with the right prefix was accepted above, so the prefix itself is misspelt.
        if plain.startswith(("object.store.", "objectstore.")):
            raise _misspelt(name, OBSTORE + plain.partition("store.")[2].replace(".", "_"))
        near = nearest(plain, sorted(_ACCEPTED), cutoff=_NEAR)
        if near:
            raise _misspelt(name, near)
        if not _is_tuning(plain):
            _warn(name)


def is_store_option(name: str) -> bool:
    """Return whether an option looks like one of a store, even if it is misspelt."""
    return _is_accepted(name) or name.lower().replace("-", ".").startswith(_FAMILIES)


def _is_accepted(name: str) -> bool:
    if name.startswith(S3_PREFIXES):
        return name.replace("-", ".") in _ACCEPTED
    return name in _ACCEPTED or name.startswith(_ACCEPTED_PREFIXES)


def _misspelt(name: str, near: str) -> ConfigError:
    return ConfigError(f"{name!r} is not a store option", hint=f"did you mean {near}?")


def _is_tuning(plain: str) -> bool:
    prefix = next((prefix for prefix in S3_PREFIXES if plain.startswith(prefix)), None)
    return prefix is not None and plain.removeprefix(prefix).split(".")[0] in _TUNING


@functools.lru_cache(maxsize=256)
def _warn(name: str) -> None:
    """Log the warning, once per process and option."""
    log.warning(
        "event=store_option_without_effect option=%s hint=write options of the obstore client as object-store.NAME",
        name,
    )


def s3_config(bucket: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return obstore's configuration for an S3 bucket. Raise ConfigError when path.style.access is not a boolean."""
    given = _s3_options(options)
    config = {theirs: given[ours] for ours, theirs in _S3_NAMES.items() if ours in given}
    # Hadoop names a Java class here: AnonymousAWSCredentialsProvider.
    if "Anonymous" in given.get("aws.credentials.provider", ""):
        config["skip_signature"] = "true"
    path_style = given.get("path.style.access", "").lower()
    if path_style not in {"", "true", "false"}:
        raise ConfigError(
            f"path.style.access is true or false, not {path_style!r}",
            hint="set true for most stores other than AWS, or leave it out",
        )
    if "endpoint" in config:
        # Most stores with a custom endpoint expect the bucket in the path.
        secure = given.get("connection.ssl.enabled", "true").lower() != "false"
        config["endpoint"] = _endpoint(config["endpoint"], secure, bucket if path_style == "false" else "")
    if path_style == "false":
        config["virtual_hosted_style_request"] = "true"
    return config | _own(options)


def _s3_options(options: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in options.items():
        prefix = next((prefix for prefix in S3_PREFIXES if name.startswith(prefix)), None)
        if prefix:
            given[name.removeprefix(prefix).replace("-", ".")] = value
    return given


def _endpoint(text: str, secure: bool, bucket: str) -> str:
    scheme, mark, host = text.rstrip("/").rpartition("://")
    scheme = scheme if mark else "https" if secure else "http"
    return f"{scheme}://{bucket}.{host}" if bucket else f"{scheme}://{host}"


def gcs_config(options: Mapping[str, str]) -> dict[str, str]:
    """Return obstore's configuration for Google Cloud Storage."""
    config = {}
    for name in ("fs.gs.auth.service.account.json.keyfile", "google.cloud.auth.service.account.json.keyfile"):
        if name in options:
            config["service_account"] = options[name]
    return config | _own(options)


def azure_config(account: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return obstore's configuration for Azure. `account` is the URL's host, such as `name.dfs.core.windows.net`."""
    config = {"account_name": account.partition(".")[0]} if account else {}
    for ours, theirs in (("fs.azure.account.key", "account_key"), ("fs.azure.sas.fixed.token", "sas_key")):
        value = _of_account(ours, account, options)
        if value is not None:
            config[theirs] = value
    return config | _azure_login(account, options) | _own(options)


def _azure_login(account: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return how obstore's client logs in, from the options of Hadoop's. Raise ConfigError for what it cannot do."""
    given = {name: value for name in _AZURE_LOGIN if (value := _of_account(name, account, options))}
    auth, provider = given.get("fs.azure.account.auth.type", ""), given.get(f"{_OAUTH}.provider.type", "")
    if auth.lower() in {"sharedkey", "sas"}:
        return {}  # the options of a login may be there for other accounts, or other jobs
    if auth.lower() == "custom" or (provider and provider.rpartition(".")[2] not in _AZURE_PROVIDERS):
        raise ConfigError(
            f"a login at Azure by {provider or auth} is not supported",
            option=f"{_OAUTH}.provider.type",
            hint=f"use one of {', '.join(_AZURE_PROVIDERS)}, or an option of the client after object-store.",
        )
    config = {
        theirs: given[f"{_OAUTH}2.{ours}"]
        for ours, theirs in _AZURE_LOGIN_NAMES.items()
        if f"{_OAUTH}2.{ours}" in given
    }
    authority = _authority(given.get(f"{_OAUTH}2.msi.authority", ""))
    return config | authority | _tenant(given.get(f"{_OAUTH}2.client.endpoint"))


def _authority(host: str) -> dict[str, str]:
    """Return the host that gives tokens, if it is not the usual one."""
    host = host.strip().rstrip("/")
    return {"authority_host": host} if host and host != _PUBLIC_LOGIN else {}


def _tenant(endpoint: str | None) -> dict[str, str]:
    """Return the tenant in the address at which Hadoop's client asks for tokens."""
    if endpoint is None:
        return {}
    found = _ENDPOINT.fullmatch(endpoint.strip())
    if found is None:
        raise ConfigError(
            f"{endpoint!r} is not an address for tokens",
            option=f"{_OAUTH}2.client.endpoint",
            hint=f"write {_PUBLIC_LOGIN}/TENANT/oauth2/token",
        )
    return {"tenant_id": found["tenant"], **_authority(found["host"])}


def _of_account(option: str, account: str, options: Mapping[str, str]) -> str | None:
    """Return the value for this account, which wins over the general one.

    An account has hosts for several protocols, such as `name.dfs.core.windows.net` and `name.blob.core.windows.net`. A
    key is valid for all of them.
    """
    same = f"{option}.{account.partition('.')[0]}."
    names = [f"{option}.{account}", *(name for name in options if name.startswith(same)), option]
    return next((options[name] for name in names if name in options), None)


def _own(options: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(OBSTORE): value for name, value in options.items() if name.startswith(OBSTORE)}
