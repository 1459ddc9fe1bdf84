"""The actions pulsar-sync-table and pulsar-sync-database: their flags, and `--pulsar-conf` as a section."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from penstock.errors import ConfigError
from penstock.ingest.messages.actions import (
    REGISTRY,
    common_keys,
    note_unread,
    refuse_misspelt,
    translated_source,
    under,
)
from penstock.ingest.pulsar.option_names import ACTED_ON, STORES, spelled
from penstock.ingest.sync_actions import INCLUDE_KEYLESS, Flag, SyncActions

_STARTS = frozenset({"fromMessageId", "fromMessageIdInclusive", "fromPublishTime"})
_START, _STOP = "pulsar.startCursor.", "pulsar.stopCursor."
_UNBOUNDED = "pulsar.source.unbounded"
_NOW = "LATEST"
_PROPERTIES = ("pulsar.client.", "pulsar.consumer.", "pulsar.admin.")
_READ = {"topic", "topic-pattern", "value.format", _UNBOUNDED}
# The pipeline behaves this way anyway: partitions are looked for before each batch, and new ones read from the start.
_DONE_OTHERWISE = {"pulsar.source.partitionDiscoveryIntervalMs", "key.format", "connector", "format"}


def conf_section(conf: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys of the `source` section.

    Options that Paimon's connector knows but that have no effect here are logged.
    """
    for key in conf:
        if key.startswith(_PROPERTIES):
            if spelled(key) not in ACTED_ON | STORES:  # `check` names those without effect
                refuse_misspelt("pulsar_conf", key, ACTED_ON)
        elif key not in _READ | _DONE_OTHERWISE and not key.startswith((_START, _STOP, REGISTRY)):
            starts = {f"{_START}{name}" for name in _STARTS}
            note_unread("pulsar_conf", key, {*_READ, *ACTED_ON, *starts, f"{_STOP}atMessageId"})
    return {
        "type": "pulsar",
        **common_keys(conf, "pulsar_conf"),
        "properties": {key: value for key, value in conf.items() if key.startswith(_PROPERTIES)},
        "startup": _startup(under(conf, _START)),
    }


def _startup(found: Mapping[str, str]) -> dict[str, Any]:
    unknown = sorted(found.keys() - _STARTS)
    if unknown:
        raise ConfigError(
            f"pulsar_conf has no option {_START}{unknown[0]}", hint=f"the options are {', '.join(sorted(_STARTS))}"
        )
    if "fromMessageId" in found and "fromPublishTime" in found:
        raise ConfigError(
            f"set either {_START}fromMessageId or {_START}fromPublishTime", hint="leave one of the two out"
        )
    if "fromPublishTime" in found:
        return {"mode": "publish-time", "publish-time": found["fromPublishTime"]}
    place = found.get("fromMessageId", "EARLIEST")
    if place.upper() in {"EARLIEST", _NOW}:
        return {"mode": place.lower()}
    inclusive = found.get("fromMessageIdInclusive", "true")
    return {"mode": "message-id", "message-id": place, "inclusive": inclusive}


def _bounded(conf: Mapping[str, str]) -> bool:
    """Return whether the source is bounded, which means the same as --until-caught-up."""
    stops = under(conf, _STOP)
    if len(stops) > 1:
        raise ConfigError(
            "You can set at most one of the stop cursor options.",
            hint="leave all of them out; with --until-caught-up the run ends",
        )
    for name, value in stops.items():
        if name == "atMessageId" and value.upper() in {_NOW, "NEVER"}:
            continue
        raise ConfigError(
            f"pulsar_conf [{_STOP}{name}] cannot be {value!r}: a run ends at the messages that exist when it starts",
            hint=f"use --until-caught-up, or {_STOP}atMessageId=LATEST",
        )
    unbounded = conf.get(_UNBOUNDED, "true").lower()
    if unbounded not in {"true", "false"}:
        raise ConfigError(f"pulsar_conf [{_UNBOUNDED}] cannot be {unbounded!r}", hint="true or false")
    return unbounded == "false" or stops.get("atMessageId", "").upper() == _NOW


ACTIONS = SyncActions(
    tables="Pulsar topics",
    database="Pulsar topics",
    flags=(
        Flag(
            "pulsar-conf",
            "option of the Pulsar source: topic, value.format, pulsar.client.*, pulsar.consumer.*; may be repeated",
            "pairs",
            "K=V",
        ),
    ),
    database_flags=(INCLUDE_KEYLESS,),
    translate=partial(translated_source, "pulsar-conf", conf_section, _bounded),
    example="--pulsar-conf pulsar.client.serviceUrl=pulsar://pulsar:6650 "
    "--pulsar-conf pulsar.consumer.subscriptionName=lake --pulsar-conf value.format=canal-json",
    table_example="--pulsar-conf topic=orders",
    database_example="--pulsar-conf topic=shop",
)
