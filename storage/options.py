"""Conversion of the options for a store's endpoint and credentials to obstore's configuration.

Paimon's and Hadoop's names for the same setting are all accepted: `s3.access-key`, `s3a.access-key`,
`fs.s3a.access.key`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.storage.known_options import OBSTORE, S3_PREFIXES

_S3_NAMES = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint": "endpoint",
    "endpoint.region": "region",
    "region": "region",
}


def s3_config(bucket: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return obstore's configuration for an S3 bucket. Raise ConfigError when path.style.access is not a boolean."""
    given = _s3_options(options)
    config = {theirs: given[ours] for ours, theirs in _S3_NAMES.items() if ours in given}
    if "Anonymous" in given.get("aws.credentials.provider", ""):
        config["skip_signature"] = "true"
    path_style = given.get("path.style.access", "").lower()
    if path_style not in {"", "true", "false"}:
        raise ConfigError(f"path.style.access is true or false, not {path_style!r}")
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
    for name in (f"fs.azure.account.key.{account}", "fs.azure.account.key"):
        if name in options:
            config.setdefault("account_key", options[name])
    return config | _own(options)


def _own(options: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(OBSTORE): value for name, value in options.items() if name.startswith(OBSTORE)}
