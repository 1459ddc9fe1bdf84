"""The client of one bucket, and its address if this is not the cloud's own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from obstore import exceptions, store

from penstock.errors import ConfigError
from penstock.storage.object_store_errors import CREDENTIALS

_ENVIRONMENT = {"s3": "AWS_", "gs": "GOOGLE_", "abfs": "AZURE_"}
# Ends of the names of options with the store's address, after `aws_` and the like. Other endpoints, such as those for
# logins, do not count: AWS_STS_REGIONAL_ENDPOINTS is set in every container of Amazon's Kubernetes.
_ADDRESSES = {"endpoint", "endpoint_url", "endpoint_url_s3", "storage_endpoint", "base_url"}
# Options of Azure that are true for a server on this machine.
_EMULATOR = "use_emulator"
_NO = {"", "0", "false", "n", "no", "off"}
_KEY_FILES = ("service_account", "service_account_path")


def new_client(kind: str, bucket: str, config: Mapping[str, str]) -> Any:
    """Return a client. Raise ConfigError if its options cannot be used, which no retry changes."""
    # The client rejects an address without TLS unless it is allowed explicitly.
    plain = any(address.startswith("http://") for address in own_addresses(kind, config))
    client: Any = {"allow_http": True} if plain else {}
    given: Any = dict(config)
    try:
        match kind:
            case "s3":
                return store.S3Store(bucket, config=given, client_options=client)
            case "gs":
                return store.GCSStore(bucket, config=given, client_options=client)
        return store.AzureStore(bucket, config=given, client_options=client)
    except exceptions.UnknownConfigurationKeyError as error:
        raise ConfigError(
            f"the client of {kind}:// rejected an option: {str(error).splitlines()[0]}",
            hint="options that begin with object-store. use the names of obstore's configuration",
        ) from error
    except exceptions.BaseError as error:
        reason = str(error).splitlines()[0].partition(" error: ")[2]
        if kind == "abfs" and "Account must be specified" in reason:
            raise  # the URL lacks it, and the error says so
        raise ConfigError(
            f"the options of {kind}://{bucket} cannot be used",
            reason=reason,
            hint=f"correct the option or the variable; {CREDENTIALS[kind]}",
        ) from error


def own_addresses(kind: str, config: Mapping[str, str]) -> list[str]:
    """Return the addresses that replace the cloud's: those of options, of the environment and of a key of Google.

    The server there may be of another make, so it is unknown whether it obeys conditional creates.
    """
    prefix = _ENVIRONMENT[kind]
    around = {name.removeprefix(prefix).lower(): text for name, text in os.environ.items() if name.startswith(prefix)}
    given = {**around, **config}
    bare = prefix.lower()
    found = [text for name, text in given.items() if text and name.removeprefix(bare) in _ADDRESSES]
    found += [text for name, text in given.items() if name.endswith(_EMULATOR) and text.lower() not in _NO]
    if kind == "gs":
        found += [address for name, text in given.items() for address in _in_key(name.removeprefix("google_"), text)]
    return found


def _in_key(name: str, value: str) -> list[str]:
    """Return the address in a service account's key. The client reports a key that cannot be read."""
    if name == "service_account_key":
        text = value
    elif name in _KEY_FILES and Path(value).is_file():
        text = Path(value).read_text(errors="replace")
    else:
        return []
    try:
        key = json.loads(text)
    except ValueError:
        return []
    address = key.get("gcs_base_url") if isinstance(key, dict) else None
    return [address] if isinstance(address, str) else []
