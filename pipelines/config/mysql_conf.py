"""Translates `--mysql-conf` into the source section of a pipeline."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError, did_you_mean

log = logging.getLogger(__name__)

_PLAIN = ("hostname", "port", "username", "password", "database-name", "table-name", "server-id", "server-time-zone")
_STARTUP = {
    "scan.startup.mode": "mode",
    "scan.startup.specific-offset.file": "file",
    "scan.startup.specific-offset.pos": "pos",
    "scan.startup.specific-offset.gtid-set": "gtid-set",
    "scan.startup.timestamp-millis": "timestamp-millis",
}
_SNAPSHOT = {
    "snapshot-mode": "mode",
    "scan.incremental.snapshot.chunk.size": "chunk-rows",
    "scan.incremental.snapshot.chunk.bytes": "chunk-bytes",
    "chunk-key.even-distribution.factor.lower-bound": "even-from",
    "chunk-key.even-distribution.factor.upper-bound": "even-to",
}
_OTHERS = {
    "connect.timeout": "connect-timeout",
    "scan.newly-added-table.enabled": "newly-added-tables",
    "debezium.include.schema.comments": "schema-comments",
}
_SSL_MODES = {
    "DISABLED": "disabled",
    "PREFERRED": "preferred",
    "REQUIRED": "required",
    "VERIFY_CA": "verify-ca",
    "VERIFY_IDENTITY": "verify-identity",
}
# Options that other connectors know and that have no effect here: this reader always behaves as they ask, or does not
# need them.
_WITHOUT_EFFECT = {
    "connector",
    "scan.incremental.snapshot.enabled",
    "scan.incremental.snapshot.backfill.skip",
    "scan.incremental.snapshot.chunk.key-column",
    "scan.incremental.snapshot.unbounded-chunk-first.enabled",
    "scan.incremental.close-idle-reader.enabled",
    "scan.binlog.newly-added-table.enabled",
    "scan.only.deserialize.captured.tables.changelog.enabled",
    "scan.startup.specific-offset.skip-events",
    "scan.startup.specific-offset.skip-rows",
    "scan.snapshot.fetch.size",
    "scan.parse.online.schema.changes.enabled",
    "chunk-meta.group.size",
    "connect.max-retries",
    "connection.pool.size",
    "heartbeat.interval",
    "use.legacy.json.format",
}
_KNOWN = {*_PLAIN, *_STARTUP, *_SNAPSHOT, *_OTHERS}
_JDBC = {f"jdbc.properties.{name}" for name in ("usessl", "allowpublickeyretrieval", "serverrsapublickeyfile")}
_REQUIRED = ("hostname", "username", "password", "database-name")


def mysql_source(conf: Mapping[str, str], *, names_table: bool) -> dict[str, Any]:
    """Return the keys of the `source` section.

    With `names_table`, the action writes one target table, and the options must name its source tables too.
    """
    required = (*_REQUIRED, "table-name") if names_table else _REQUIRED
    for key in required:
        if not conf.get(key):
            raise ConfigError(f"mysql_conf [{key}] must be specified.")
    if not names_table and "table-name" in conf:
        raise ConfigError(
            "table-name cannot be set for mysql_sync_database.",
            hint="use --including-tables and --excluding-tables to choose tables",
        )
    for key in conf:
        _check_known(key)
    tls = _ssl(conf)
    return {
        "type": "mysql",
        **{key: conf[key] for key in _PLAIN if key in conf},
        **{name: conf[key] for key, name in _OTHERS.items() if key in conf},
        "startup": {name: conf[key] for key, name in _STARTUP.items() if key in conf},
        "snapshot": {name: conf[key] for key, name in _SNAPSHOT.items() if key in conf},
        **({"ssl": tls} if tls else {}),
    }


def has_effect(key: str) -> bool | None:
    """Return True if the key has an effect, False if only other connectors know it, None if it is unknown."""
    if key in _KNOWN or key.startswith("jdbc.properties.ssl") or key.lower() in _JDBC:
        return True
    return False if key in _WITHOUT_EFFECT or key.startswith(("jdbc.properties.", "debezium.")) else None


def _check_known(key: str) -> None:
    effect = has_effect(key)
    if effect:
        return
    if effect is not None:
        log.warning("event=mysql_conf_without_effect key=%s", key)
        return
    raise ConfigError(f"mysql_conf has no option {key}", hint=did_you_mean(key, sorted(_KNOWN | _WITHOUT_EFFECT)))


def _ssl(conf: Mapping[str, str]) -> dict[str, Any]:
    """Return the TLS and password settings from the JDBC properties."""
    prefix = "jdbc.properties."
    given = {key.removeprefix(prefix).lower(): value for key, value in conf.items() if key.startswith(prefix)}
    found: dict[str, Any] = {}
    if "sslmode" in given:
        mode = _SSL_MODES.get(given["sslmode"].upper())
        if mode is None:
            raise ConfigError(f"jdbc.properties.sslMode cannot be {given['sslmode']!r}", hint=", ".join(_SSL_MODES))
        found["mode"] = mode
    elif "usessl" in given:
        found["mode"] = "preferred" if given["usessl"].lower() == "true" else "disabled"
    if given.get("allowpublickeyretrieval", "").lower() == "true":
        found["allow-public-key-retrieval"] = True
    if "serverrsapublickeyfile" in given:
        found["public-key"] = given["serverrsapublickeyfile"]
    return found


def ends_by_itself(conf: Mapping[str, str]) -> bool:
    """Return whether the run is bounded: with startup mode `snapshot` it reads the tables and ends."""
    return conf.get("scan.startup.mode", "").strip().lower() == "snapshot"
