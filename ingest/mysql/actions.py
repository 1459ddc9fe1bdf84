"""The actions mysql-sync-table and mysql-sync-database, and the source of a Flink CDC file, as the section `source`.

Both describe the server by the options of `--mysql-conf`, which are the options of Flink CDC's connector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError, did_you_mean, nearest
from penstock.ingest.database.action_options import check_names, check_options
from penstock.ingest.sync_actions import (
    INCLUDE_KEYLESS,
    REREAD,
    Flag,
    FlagValues,
    SyncActions,
    TranslatedSource,
    pairs,
    renamed,
)

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
_JDBC = "jdbc.properties."
# The driver's properties about TLS and passwords, as its manual writes them.
_JDBC_READ = (
    *("sslMode", "useSSL", "requireSSL", "verifyServerCertificate"),
    *("allowPublicKeyRetrieval", "serverRSAPublicKeyFile"),
)
_JDBC_ALIKE = 0.85
_JDBC_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
_REQUIRED = ("hostname", "username", "password", "database-name")


def conf_section(conf: Mapping[str, str], *, names_table: bool) -> dict[str, Any]:
    """Return the keys of the `source` section.

    With `names_table`, the action writes one target table, and the options must name its source tables too.
    """
    check_names(conf, "mysql", _REQUIRED, "table-name", names_table=names_table)
    known = _KNOWN | _WITHOUT_EFFECT | {f"{_JDBC}{name}" for name in _JDBC_READ}
    check_options(conf, "mysql", _has_effect, known)
    # Options of the JDBC driver that concern TLS and passwords are translated; this client is not JDBC.
    tls = _ssl(conf)
    return {
        "type": "mysql",
        **{key: conf[key] for key in _PLAIN if key in conf},
        **{name: conf[key] for key, name in _OTHERS.items() if key in conf},
        "startup": {name: conf[key] for key, name in _STARTUP.items() if key in conf},
        "snapshot": {name: conf[key] for key, name in _SNAPSHOT.items() if key in conf},
        **({"ssl": tls} if tls else {}),
    }


def _has_effect(key: str) -> bool | None:
    """Return True if the key has an effect, False if only other connectors know it, None if it is unknown."""
    if key.startswith(_JDBC):
        return _jdbc_has_effect(key.removeprefix(_JDBC).lower())
    if key in _KNOWN:
        return True
    return False if key in _WITHOUT_EFFECT or key.startswith("debezium.") else None


def _jdbc_has_effect(name: str) -> bool | None:
    """Return whether a property of the JDBC driver has an effect, None for a misspelt name.

    The driver accepts names in any case. A misspelt name is refused, because the connection would lack its protection.
    """
    read = [known.lower() for known in _JDBC_READ]
    if name in read:
        return True
    return None if nearest(name, read, _JDBC_ALIKE) else False


def _ssl(conf: Mapping[str, str]) -> dict[str, Any]:
    """Return the TLS and password settings from the JDBC properties."""
    given = {key.removeprefix(_JDBC).lower(): value for key, value in conf.items() if key.startswith(_JDBC)}
    found: dict[str, Any] = {}
    # The driver ignores the older properties if sslMode is set.
    if "sslmode" in given:
        mode = _SSL_MODES.get(given["sslmode"].upper())
        if mode is None:
            raise ConfigError(f"jdbc.properties.sslMode cannot be {given['sslmode']!r}", hint=", ".join(_SSL_MODES))
        found["mode"] = mode
    elif not given.keys().isdisjoint(("usessl", "requiressl", "verifyservercertificate")):
        found["mode"] = _older_mode(given)
    if _flag(given, "allowPublicKeyRetrieval"):
        found["allow-public-key-retrieval"] = True
    if "serverrsapublickeyfile" in given:
        found["public-key"] = given["serverrsapublickeyfile"]
    return found


def _older_mode(given: Mapping[str, str]) -> str:
    """Return the mode that the driver's properties before sslMode mean together."""
    if not _flag(given, "useSSL", unset=True):
        return "disabled"
    requires = _flag(given, "requireSSL")
    if _flag(given, "verifyServerCertificate"):
        return "verify-ca"
    return "required" if requires else "preferred"


def _flag(given: Mapping[str, str], name: str, *, unset: bool = False) -> bool:
    """Return a flag of the driver. Raise ConfigError for a word that the driver refuses: a guess could turn TLS off."""
    text = given.get(name.lower())
    if text is None:
        return unset
    if text.lower() not in _JDBC_FLAGS:
        raise ConfigError(f"{_JDBC}{name} cannot be {text!r}", hint=", ".join(_JDBC_FLAGS))
    return _JDBC_FLAGS[text.lower()]


def _translate(flags: FlagValues) -> TranslatedSource:
    conf = pairs(flags.get("mysql-conf", ()))
    section = conf_section(conf, names_table=bool(flags.get("table")))
    ddl = renamed(flags, {"on-truncate": "truncate", "on-drop": "drop", "on-rename-column": "rename-column"})
    # With this startup mode the job reads the current rows of the tables and ends.
    ends = conf.get("scan.startup.mode", "").strip().lower() == "snapshot"
    keyless = renamed(flags, {"include-keyless": "keyless"})
    return TranslatedSource(section | {"ddl": ddl} | keyless, {"until": "caught-up"} if ends else {})


ACTIONS = SyncActions(
    tables="MySQL or MariaDB tables",
    database="a MySQL or MariaDB database",
    flags=(
        Flag(
            "mysql-conf",
            "option of the MySQL source: hostname, username, database-name, ...; may be repeated",
            "pairs",
            "K=V",
        ),
        Flag(
            "on-truncate",
            "TRUNCATE at the source: ignore, or delete-all to empty the table (default: ignore)",
            metavar="POLICY",
        ),
        Flag(
            "on-drop",
            (
                "a source table that is dropped, replaced or renamed to an excluded name: ignore, or delete-all to "
                "empty the table (default: ignore)"
            ),
            metavar="POLICY",
        ),
        Flag(
            "on-rename-column",
            "a renamed column at the source: add a new column, or rename the column with its values (default: add)",
        ),
        *REREAD,
        INCLUDE_KEYLESS,
    ),
    translate=_translate,
    example="--mysql-conf hostname=db --mysql-conf username=cdc --mysql-conf password='${MYSQL_PASSWORD}'"
    " --mysql-conf database-name=shop",
    table_example="--mysql-conf table-name=orders",
)

_APART = {"type", "name", "tables", "tables.exclude"}
# Keys that Flink CDC's connector reads and Paimon's action does not; other keys express them here.
_COMMENTS, _TINYINT, _CHANGES = "include-comments.enabled", "treat-tinyint1-as-boolean.enabled", "schema-change.enabled"
_APPEND, _LISTED = "scan.read-changelog-as-append-only.enabled", "metadata.list"
_ITS_OWN = {_COMMENTS, _TINYINT, _CHANGES, _APPEND, _LISTED}
_NEEDED = dict.fromkeys((*_REQUIRED, "table-name"), "-")


def flink_cdc_source(given: Mapping[str, Any]) -> TranslatedSource:
    """Return the source of a Flink CDC file.

    Raise ConfigError for settings that would change rows and have no counterpart here.
    """
    if _is(given, _APPEND, "true"):
        raise ConfigError(
            "converting updates and deletes to inserts is not supported",
            key=f"source.{_APPEND}",
            hint="leave the option out; sink: {deletes: history}  keeps every version of a row",
        )
    conf = {key: str(value) for key, value in given.items() if key not in _APART | _ITS_OWN and value is not None}
    if _is(given, _COMMENTS, "true"):
        conf["debezium.include.schema.comments"] = "true"
    for key in conf:
        if _has_effect(key) is None:
            known_keys = sorted(_KNOWN | _WITHOUT_EFFECT | _APART | _ITS_OWN)
            raise ConfigError(
                f"Flink CDC does not know the key `{key}`",
                key=f"source.{key}",
                hint=did_you_mean(key, known_keys, "remove it"),
            )
    known = {key: value for key, value in conf.items() if _has_effect(key)}
    made = conf_section(_NEEDED | known, names_table=True)
    # Placeholders are removed again, so that the model reports the missing key under its name in a pipeline file.
    for key in _NEEDED.keys() - known.keys():
        made.pop(key)
    return TranslatedSource(
        {**made, "tables": _listed(given.get("tables")), "tables.exclude": _listed(given.get("tables.exclude"))},
        {"schema.change.behavior": "ignore"} if _is(given, _CHANGES, "false") else {},
        {"type-mapping": ["tinyint1-not-bool"]} if _is(given, _TINYINT, "false") else {},
        [key for key in conf if key not in known],
    )


def _is(given: Mapping[str, Any], key: str, value: str) -> bool:
    return str(given.get(key, "")).strip().lower() == value


def _listed(given: object) -> list[str]:
    """Split names at commas, except at commas inside brackets."""
    return [part.strip() for part in re.split(r",(?![^(\[{]*[)\]}])", str(given or "")) if part.strip()]
