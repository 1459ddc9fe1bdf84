"""The names of store options that are accepted. A misspelt name is refused before the store is contacted."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable

from penstock.errors import ConfigError, nearest

log = logging.getLogger(__name__)

S3_PREFIXES = ("fs.s3a.", "fs.s3.", "s3a.", "s3.")
_S3_NAMES = (
    "access.key",
    "secret.key",
    "session.token",
    "endpoint",
    "endpoint.region",
    "region",
    "aws.credentials.provider",
    "path.style.access",
    "connection.ssl.enabled",
)
_TAKEN = frozenset(
    {
        *(prefix + name for prefix in S3_PREFIXES for name in _S3_NAMES),
        "fs.gs.auth.service.account.json.keyfile",
        "google.cloud.auth.service.account.json.keyfile",
        "fs.azure.account.key",
        "security.kerberos.login.principal",
        "security.kerberos.login.keytab",
        "local.sync",
    }
)
# Names that end with an account, or that only the store's client can check.
OBSTORE = "object-store."
_TAKEN_PREFIXES = ("fs.azure.account.key.", "fs.viewfs.", "hadoop.", OBSTORE)
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
        if _is_taken(name) or not plain.startswith(_FAMILIES):
            continue
        if plain.startswith(("object.store.", "objectstore.")):
            raise _misspelt(name, OBSTORE + plain.partition("store.")[2].replace(".", "_"))
        near = nearest(plain, sorted(_TAKEN), cutoff=_NEAR)
        if near:
            raise _misspelt(name, near)
        if not _is_tuning(plain):
            _warn(name)


def is_store_option(name: str) -> bool:
    """Return whether an option looks like one of a store, even if it is misspelt."""
    return _is_taken(name) or name.lower().replace("-", ".").startswith(_FAMILIES)


def _is_taken(name: str) -> bool:
    if name.startswith(S3_PREFIXES):
        return name.replace("-", ".") in _TAKEN
    return name in _TAKEN or name.startswith(_TAKEN_PREFIXES)


def _misspelt(name: str, near: str) -> ConfigError:
    return ConfigError(f"{name!r} is not a store option", hint=f"did you mean {near}?")


def _is_tuning(plain: str) -> bool:
    prefix = next((prefix for prefix in S3_PREFIXES if plain.startswith(prefix)), None)
    return prefix is not None and plain.removeprefix(prefix).split(".")[0] in _TUNING


@functools.lru_cache(maxsize=256)
def _warn(name: str) -> None:
    """Log the warning, once per process and option."""
    log.warning(
        "store option has no effect option=%s hint=write options of the obstore client as object-store.NAME", name
    )
