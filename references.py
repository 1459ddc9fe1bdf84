"""Secrets as references, `${NAME}`, `${NAME:-default}` or `${file:/path}`, which are resolved only where they are used.

Storages are pickled into Spark tasks and options are written to Spark's event log. Both contain only the reference,
never the secret.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from penstock.errors import ConfigError, without_login

# The default may be empty: ${NAME:-} is an empty text where the variable is not set.
_REFERENCE = re.compile(r"\$\{(?:(file):)?([^}]*?)(?::-([^}]*))?\}")
# Names of options of Kafka, MySQL, stores and Spark whose values are credentials. Short words that are also parts
# of other names, such as `pass`, count only as a whole name or at its end.
_SECRET = re.compile(
    r"key|secret|token|passw|passphrase|\.pass$|\.pw$|^pass$|^pw$|^sig$|sas|credential|authorization|jaas|user\.?-?info|webhook"
    r"|connection\.?-?string|authparam",
    re.IGNORECASE,
)

# Options of catalogs and stores whose names look like those of credentials, and whose values are not, such as the path
# of a file that has the key.
_NO_SECRETS = {
    "catalog-key",
    "data-token.enabled",
    "dlf.token-loader",
    "dlf.token-path",
    "fs.gs.auth.service.account.json.keyfile",
    "google.cloud.auth.service.account.json.keyfile",
    "jdbc.allowpublickeyretrieval",
    "lock-key-max-length",
    "security.kerberos.login.keytab",
    "token.provider",
}


def resolve(text: str) -> str:
    """Return the text with every reference replaced by its value. Raise ConfigError when one cannot be resolved."""
    return _REFERENCE.sub(_look_up, text)


def has_reference(text: str) -> bool:
    """Return whether the text contains a reference, which only a user of this machine may write."""
    return _REFERENCE.search(text) is not None


def _look_up(found: re.Match[str]) -> str:
    kind, name, default = found.groups()
    if kind == "file":
        try:
            # Editors end a file with a line break, which is not part of the secret.
            return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise ConfigError(
                "a file with a secret cannot be read",
                secret=name,
                reason=error.strerror,
                hint="check the path, and that this user has permission to read the file",
            ) from error
    value = os.environ.get(name, default)
    if value is None:
        raise ConfigError(
            f"the environment variable {name} is not set",
            hint=f"run  export {name}=...  first, or write ${{{name}:-default}} to set a default",
        )
    return value


def masked(name: str, value: str) -> str:
    """Return the value as it may be printed: references are shown, secrets are replaced by `***`."""
    # Only if it is the whole value: a reference within a text may have a secret in clear text beside it.
    if _REFERENCE.fullmatch(value):
        return value
    secret = _SECRET.search(name) and name.lower() not in _NO_SECRETS
    return "***" if secret else without_login(value)
