"""The actions postgres-sync-table and postgres-sync-database: their flags, and `--postgres-conf` as a section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError
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

_PLAIN = (
    *("hostname", "port", "username", "password", "database-name", "schema-name", "table-name"),
    *("slot.name", "connect.timeout", "answer-timeout"),
)
_OTHERS = {"scan.newly-added-table.enabled": "newly-added-tables", "slot.failover": "failover"}
_SSL = {
    "debezium.database.sslmode": "mode",
    "debezium.database.sslrootcert": "ca",
    "debezium.database.sslcert": "cert",
    "debezium.database.sslkey": "key",
}
_AUTOCREATE = "debezium.publication.autocreate.mode"
_PUBLICATION = "debezium.publication.name"
_CREATES = {"all_tables": True, "filtered": True, "disabled": False}
# Options that other connectors know and that have no effect here: this reader always behaves as they ask, or does not
# need them.
_WITHOUT_EFFECT = {
    "connector",
    "decoding.plugin.name",
    "changelog-mode",
    "scan.incremental.snapshot.enabled",
    "scan.incremental.snapshot.backfill.skip",
    "scan.incremental.snapshot.chunk.key-column",
    "scan.incremental.snapshot.unbounded-chunk-first.enabled",
    "scan.incremental.close-idle-reader.enabled",
    "scan.lsn-commit.checkpoints-num-delay",
    "scan.read-changelog-as-append-only.enabled",
    "scan.include-partitioned-tables.enabled",
    "scan.snapshot.fetch.size",
    "chunk-key.even-distribution.factor.lower-bound",
    "chunk-key.even-distribution.factor.upper-bound",
    "chunk-meta.group.size",
    "connect.max-retries",
    "connection.pool.size",
    "heartbeat.interval",
}
_MODE, _CHUNK = "scan.startup.mode", "scan.incremental.snapshot.chunk.size"
_KNOWN = {*_PLAIN, *_OTHERS, *_SSL, _AUTOCREATE, _PUBLICATION, _MODE, _CHUNK}
_REQUIRED = ("hostname", "username", "password", "database-name", "schema-name")


def conf_section(conf: Mapping[str, str], *, names_table: bool) -> dict[str, Any]:
    """Return the keys of the `source` section.

    With `names_table`, the action writes one target table, and the options must name its source tables too.
    """
    check_names(conf, "postgres", (*_REQUIRED, "slot.name"), "table-name", names_table=names_table)
    check_options(conf, "postgres", _has_effect, _KNOWN | _WITHOUT_EFFECT)
    startup = {"mode": conf[_MODE]} if _MODE in conf else {}
    snapshot = {"chunk-rows": conf[_CHUNK]} if _CHUNK in conf else {}
    tls = {name: conf[key] for key, name in _SSL.items() if key in conf}
    plain = {key: conf[key] for key in _PLAIN if key in conf}
    # The only key of this list that has another name in the section.
    if "connect.timeout" in plain:
        plain["connect-timeout"] = plain.pop("connect.timeout")
    return {
        "type": "postgres",
        **plain,
        **{name: conf[key] for key, name in _OTHERS.items() if key in conf},
        "publication": _publication(conf),
        "startup": startup,
        "snapshot": snapshot,
        **({"ssl": tls} if tls else {}),
    }


def _publication(conf: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": conf[_PUBLICATION]} if _PUBLICATION in conf else {}
    if _AUTOCREATE in conf:
        creates = _CREATES.get(conf[_AUTOCREATE].lower())
        if creates is None:
            raise ConfigError(f"{_AUTOCREATE} cannot be {conf[_AUTOCREATE]!r}", hint=", ".join(_CREATES))
        found["create"] = creates
    return found


def _has_effect(key: str) -> bool | None:
    """Return True if the key has an effect, False if only other connectors know it, None if it is unknown."""
    if key in _KNOWN:
        return True
    return False if key in _WITHOUT_EFFECT or key.startswith("debezium.") else None


def _translate(flags: FlagValues) -> TranslatedSource:
    conf = pairs(flags.get("postgres-conf", ()))
    section = conf_section(conf, names_table=bool(flags.get("table")))
    # With this startup mode the job reads the current rows of the tables and ends.
    pipeline = {"until": "caught-up"} if conf.get(_MODE, "").strip().lower() == "snapshot" else {}
    ddl = renamed(flags, {"on-truncate": "truncate", "on-drop": "drop"})
    keyless = renamed(flags, {"include-keyless": "keyless"})
    return TranslatedSource(section | ({"ddl": ddl} if ddl else {}) | keyless, pipeline)


ACTIONS = SyncActions(
    tables="PostgreSQL tables",
    database="a PostgreSQL database",
    flags=(
        Flag(
            "postgres-conf",
            "option of the PostgreSQL source: hostname, username, database-name, slot.name, ...; may be repeated",
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
            "DROP TABLE at the source, or its new name: ignore, or delete-all to empty the table (default: ignore)",
            metavar="POLICY",
        ),
        *REREAD,
        INCLUDE_KEYLESS,
    ),
    translate=_translate,
    example="--postgres-conf hostname=db --postgres-conf username=cdc --postgres-conf password='${POSTGRES_PASSWORD}'"
    " --postgres-conf database-name=shop --postgres-conf schema-name=public --postgres-conf slot.name=penstock",
    table_example="--postgres-conf table-name=orders",
)
