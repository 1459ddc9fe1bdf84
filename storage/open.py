"""Opening the store that a path or URL refers to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError
from penstock.references import resolve
from penstock.storage.base import Storage
from penstock.storage.catalog_options import check_catalog
from penstock.storage.local import LocalStorage
from penstock.storage.options import azure_config, check_known, gcs_config, s3_config

# A scheme has two characters at least, so that the drive letter of a path is not one.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?://(?P<host>[^/]*))?(?P<path>/.*)?", re.DOTALL)
_KNOWN = "file, s3, s3a, gs, abfs, abfss, hdfs"
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}  # names of other clients for one store


def open_storage(url: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    """Return the store and the path within it. The store is not contacted yet.

    Credentials come from Paimon's options (`s3.access-key`, `fs.s3a.access.key`, ...), from obstore's own names after
    `object-store.`, or from the environment. An option's value may be a reference such as `${S3_SECRET}`. `local.sync`
    = false leaves it to the operating system when local files are written to disk: a power failure may lose commits.
    Raise ConfigError for a misspelt name, and for a metastore, because tables are found in folders only.
    """
    check_known(options)
    check_catalog(options)
    if "\0" in url:  # no file system has it, and Python raises an error without the path
        raise ConfigError(
            f"the path {url!r} has a character that no path can have", hint="remove the NUL character from the path"
        )
    match = _URL.fullmatch(url)
    if match is None:  # a plain path, or a path with a drive letter
        return _local(options), _absolute(url)
    scheme, host, path = match["scheme"].lower(), match["host"] or "", (match["path"] or "/").rstrip("/") or "/"
    match scheme:
        case "file":
            return _local(options), path
        case "s3" | "s3a" | "s3n":
            return _in_bucket("s3", host, path, s3_config(host, options), url)
        case "gs":
            return _in_bucket("gs", host, path, gcs_config(options), url)
        case "abfs" | "abfss":
            container, _, account = host.partition("@")
            return _in_bucket("abfs", container, path, azure_config(account, options), url)
        case "hdfs" | "viewfs":
            from penstock.storage.hdfs import HdfsStorage, hdfs_config  # the client is an optional dependency

            return HdfsStorage(f"{scheme}://{host}", hdfs_config(options)), path
    raise ConfigError(f"no storage client supports {scheme}://", path=url, hint=f"choices are {_KNOWN}")


def is_same_place(one: str, other: str) -> bool:
    """Return whether two paths or URLs are spellings of the same place, such as `x` and `x/`, or `s3:` and `s3a:`."""
    return _place(one) == _place(other)


def one_place(flag: str, given: str | None, option: str, named: str | None) -> str | None:
    """Return the place that a flag or an option of a catalog names, None if neither does. An empty text names none.

    Raise ConfigError if they name different places: whichever won, rows would get to a place that nobody looks at.
    """
    if given and named and not is_same_place(given, named):
        raise ConfigError(f"{flag} is {given}, and {option} warehouse={named}", hint="leave one of them out")
    return given or named or None


def _place(url: str) -> tuple[str, str, str]:
    match = _URL.fullmatch(url)
    if match is None:
        return "file", "", _absolute(url)
    scheme = match["scheme"].lower()
    return _SAME_STORE.get(scheme, scheme), match["host"] or "", (match["path"] or "/").rstrip("/") or "/"


def _absolute(path: str) -> str:
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError as error:  # Python names neither the user nor the path
        hint = "write the folder in full, or ./~name for a folder whose name begins with ~"
        raise ConfigError("a path begins with the folder of an unknown user", path=path, hint=hint) from error


def is_object_store(url: str) -> bool:
    """Return whether a URL refers to an object store, on which Java locks a table for each commit by default."""
    scheme, separator, _ = url.partition("://")
    return bool(separator) and scheme.lower() not in {"file", "hdfs", "viewfs"}


def _local(options: Mapping[str, str]) -> LocalStorage:
    sync = resolve(options.get("local.sync", "true")).lower()
    if sync not in {"true", "false"}:
        raise ConfigError(f"local.sync is true or false, not {sync!r}", hint="leave it out: true is the default")
    return LocalStorage(sync=sync == "true")


def _in_bucket(kind: str, bucket: str, path: str, config: dict[str, str], url: str) -> tuple[Storage, str]:
    from penstock.storage.object_store import ObjectStorage  # local tables do not need this import

    if not bucket:
        raise ConfigError("the URL names no bucket", path=url, hint="write it as s3://BUCKET/PATH")
    return ObjectStorage(kind, bucket, tuple(sorted(config.items()))), path
