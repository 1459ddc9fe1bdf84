"""The actions mongodb-sync-table and mongodb-sync-database: their flags, and `--mongodb-conf` as a section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.ingest.database.action_options import check_names, check_options
from penstock.ingest.sync_actions import REREAD, Flag, FlagValues, SyncActions, TranslatedSource, pairs

_PLAIN = (
    *("hosts", "scheme", "username", "password", "connection.options", "database", "collection"),
    "default.id.generation",
)
_START, _NAMES, _PATHS = "schema.start.mode", "field.name", "parser.path"
_MODE, _MILLIS = "scan.startup.mode", "scan.startup.timestamp-millis"
_CHUNK = "scan.incremental.snapshot.chunk.size"
_NEW, _IMAGES = "scan.newly-added-table.enabled", "scan.full-changelog"
_KNOWN = {*_PLAIN, _START, _NAMES, _PATHS, _MODE, _MILLIS, _CHUNK, _NEW, _IMAGES}
# Options that other connectors know and that have no effect here: this reader always behaves as they ask, or does not
# need them.
_WITHOUT_EFFECT = {
    "connector",
    "batch.size",
    "poll.max.batch.size",
    "poll.await.time.ms",
    "heartbeat.interval.ms",
    "initial.snapshotting.queue.size",
    "initial.snapshotting.max.threads",
    "initial.snapshotting.pipeline",
    "scan.incremental.snapshot.enabled",
    "scan.incremental.snapshot.chunk.size.mb",
    "scan.incremental.snapshot.chunk.samples",
    "scan.incremental.snapshot.backfill.skip",
    "scan.incremental.close-idle-reader.enabled",
    "scan.cursor.no-timeout",
    "chunk-meta.group.size",
}


def conf_section(conf: Mapping[str, str], *, names_table: bool) -> dict[str, Any]:
    """Return the keys of the `source` section.

    With `names_table`, the action writes one target table, and the options must name its collection too.
    """
    check_names(conf, "mongodb", ("hosts", "database"), "collection", names_table=names_table)
    check_options(conf, "mongodb", _has_effect, _KNOWN | _WITHOUT_EFFECT)
    startup = {name: conf[key] for name, key in (("mode", _MODE), ("timestamp-millis", _MILLIS)) if key in conf}
    documents: dict[str, Any] = {"mode": conf[_START].strip().lower()} if _START in conf else {}
    documents |= {key: _listed(conf[key]) for key in (_NAMES, _PATHS) if key in conf}
    return {
        "type": "mongodb",
        **{key: conf[key] for key in _PLAIN if key in conf},
        **({"newly-added-tables": conf[_NEW]} if _NEW in conf else {}),
        **({"full-document": "required"} if conf.get(_IMAGES, "").lower() == "true" else {}),
        **({"snapshot": {"chunk-rows": conf[_CHUNK]}} if _CHUNK in conf else {}),
        "startup": startup,
        "documents": documents,
    }


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _has_effect(key: str) -> bool | None:
    """Return True if the key has an effect, False if only other connectors know it, None if it is unknown."""
    return True if key in _KNOWN else False if key in _WITHOUT_EFFECT else None


def _translate(flags: FlagValues) -> TranslatedSource:
    conf = pairs(flags.get("mongodb-conf", ()))
    section = conf_section(conf, names_table=bool(flags.get("table")))
    # With this startup mode the job reads the current documents of the collections and ends.
    pipeline = {"until": "caught-up"} if conf.get(_MODE, "").strip().lower() == "snapshot" else {}
    return TranslatedSource(section, pipeline)


ACTIONS = SyncActions(
    tables="a MongoDB collection",
    database="a MongoDB database",
    flags=(
        Flag(
            "mongodb-conf",
            "option of the MongoDB source: hosts, database, collection, username, ...; may be repeated",
            "pairs",
            "K=V",
        ),
        *REREAD,
    ),
    translate=_translate,
    example="--mongodb-conf hosts=db:27017 --mongodb-conf username=cdc --mongodb-conf password='${MONGODB_PASSWORD}'"
    " --mongodb-conf database=shop",
    table_example="--mongodb-conf collection=orders",
)
