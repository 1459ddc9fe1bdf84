"""The actions kafka-sync-table and kafka-sync-database: their flags, and `--kafka-conf` as a section."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from penstock.errors import ConfigError
from penstock.ingest.messages.actions import REGISTRY, common_keys, note_unread, translated_source, under
from penstock.ingest.sync_actions import (
    INCLUDE_KEYLESS,
    Flag,
    SyncActions,
)

_STARTUP = "scan.startup."
_PROPERTIES = "properties."
_SERVERS, _STARTS = f"{_PROPERTIES}bootstrap.servers", frozenset({"mode", "specific-offsets", "timestamp-millis"})
_BOUNDED, _UNBOUNDED, _LATEST = "scan.bounded.mode", "unbounded", "latest-offset"
_READ = {"topic", "topic-pattern", "value.format", _BOUNDED}
# The pipeline behaves this way anyway.
_DONE_OTHERWISE = {
    "scan.topic-partition-discovery.interval",
    "key.format",
    "connector",
    "format",
}


def conf_section(conf: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys of the `source` section.

    Options that Paimon's connector knows but that have no effect here are logged.
    """
    for key in conf:
        if key not in _READ and not key.startswith((_STARTUP, REGISTRY, _PROPERTIES)) and key not in _DONE_OTHERWISE:
            note_unread("kafka_conf", key, {*_READ, _SERVERS, *(f"{_STARTUP}{name}" for name in _STARTS)})
    return {
        "type": "kafka",
        **common_keys(conf, "kafka_conf"),
        "properties": under(conf, _PROPERTIES),
        "startup": _startup(under(conf, _STARTUP)),
    }


def _startup(found: Mapping[str, str]) -> dict[str, str]:
    unknown = sorted(found.keys() - _STARTS)
    if unknown:
        raise ConfigError(
            f"kafka_conf has no option {_STARTUP}{unknown[0]}", hint=f"the options are {', '.join(sorted(_STARTS))}"
        )
    return dict(found)


def _bounded(conf: Mapping[str, str]) -> bool:
    """Return whether the source is bounded: scan.bounded.mode=latest-offset means the same as --until-caught-up."""
    mode = conf.get(_BOUNDED, _UNBOUNDED).lower()
    if mode not in {_UNBOUNDED, _LATEST}:
        raise ConfigError(f"kafka_conf [{_BOUNDED}] cannot be {mode!r}", hint=f"{_UNBOUNDED} or {_LATEST}")
    return mode == _LATEST


ACTIONS = SyncActions(
    tables="Kafka topics",
    database="Kafka topics",
    flags=(
        Flag(
            "kafka-conf",
            "option of the Kafka source: topic, value.format, properties.*; may be repeated",
            "pairs",
            "K=V",
        ),
    ),
    database_flags=(INCLUDE_KEYLESS,),
    translate=partial(translated_source, "kafka-conf", conf_section, _bounded),
    example="--kafka-conf properties.bootstrap.servers=kafka:9092 --kafka-conf value.format=canal-json",
    table_example="--kafka-conf topic=orders",
    database_example="--kafka-conf topic=shop",
)
