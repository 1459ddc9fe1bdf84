"""The actions kafka-sync-table and kafka-sync-database: their flags, and `--kafka-conf` as a section."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import (
    INCLUDE_KEYLESS,
    Flag,
    FlagValues,
    SyncActions,
    TranslatedSource,
    pairs,
    renamed,
)

log = logging.getLogger(__name__)

_STARTUP = "scan.startup."
_REGISTRY = "schema.registry."
_PROPERTIES = "properties."
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
    if "value.format" not in conf:
        raise ConfigError("kafka_conf [value.format] must be specified.")
    # Paimon separates topics by semicolons; commas are accepted too.
    named = (topic.strip() for topic in re.split("[;,]", conf.get("topic", "")))
    topics = tuple(dict.fromkeys(topic for topic in named if topic))
    for key in conf:
        if key not in _READ and not key.startswith((_STARTUP, _REGISTRY, _PROPERTIES)) and key not in _DONE_OTHERWISE:
            log.warning("event=kafka_conf_without_effect key=%s", key)
    return {
        "type": "kafka",
        "topic": topics,
        "topic-pattern": conf.get("topic-pattern"),
        "value.format": conf["value.format"],
        "properties": _under(conf, _PROPERTIES),
        "schema-registry": _under(conf, _REGISTRY),
        "startup": _startup(_under(conf, _STARTUP)),
    }


def _under(conf: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def _startup(found: Mapping[str, str]) -> dict[str, str]:
    known = {"mode", "specific-offsets", "timestamp-millis"}
    unknown = sorted(found.keys() - known)
    if unknown:
        raise ConfigError(
            f"kafka_conf has no option {_STARTUP}{unknown[0]}", hint=f"the options are {', '.join(sorted(known))}"
        )
    return dict(found)


def _bounded(conf: Mapping[str, str]) -> bool:
    """Return whether the source is bounded: scan.bounded.mode=latest-offset means the same as --until-caught-up."""
    mode = conf.get(_BOUNDED, _UNBOUNDED).lower()
    if mode not in {_UNBOUNDED, _LATEST}:
        raise ConfigError(f"kafka_conf [{_BOUNDED}] cannot be {mode!r}", hint=f"{_UNBOUNDED} or {_LATEST}")
    return mode == _LATEST


def _translate(given: FlagValues) -> TranslatedSource:
    conf = pairs(given.get("kafka-conf", ()))
    pipeline = {"until": "caught-up"} if _bounded(conf) else {}
    sink = renamed(given, {"include-keyless": "no-primary-key"})
    # The flag says "leave-out" where the key of a file says "skip".
    if sink.get("no-primary-key") == "leave-out":
        sink["no-primary-key"] = "skip"
    return TranslatedSource(conf_section(conf), pipeline, sink)


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
    translate=_translate,
    example="--kafka-conf properties.bootstrap.servers=kafka:9092 --kafka-conf value.format=canal-json",
    table_example="--kafka-conf topic=orders",
    database_example="--kafka-conf topic=shop",
)
