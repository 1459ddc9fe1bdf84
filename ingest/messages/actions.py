"""The common part of the actions of message brokers: options after --kafka-conf or --pulsar-conf as a section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import FlagValues, renamed

REGISTRY = "schema.registry."


def common_keys(conf: Mapping[str, str], conf_name: str) -> dict[str, Any]:
    """Return the keys of the section that every broker has. `conf_name` is the flag's name in Paimon's errors."""
    if "value.format" not in conf:
        raise ConfigError(f"{conf_name} [value.format] must be specified.")
    # Paimon separates topics by semicolons; commas are accepted too.
    named = (topic.strip() for topic in re.split("[;,]", conf.get("topic", "")))
    return {
        "topic": tuple(dict.fromkeys(topic for topic in named if topic)),
        "topic-pattern": conf.get("topic-pattern"),
        "value.format": conf["value.format"],
        "schema-registry": under(conf, REGISTRY),
    }


def under(conf: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the options that begin with the prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def sink_keys(given: FlagValues) -> dict[str, Any]:
    """Return the keys of the section `sink` that flags of the source decide."""
    sink = renamed(given, {"include-keyless": "no-primary-key"})
    # The flag says "leave-out" where the key of a file says "skip".
    if sink.get("no-primary-key") == "leave-out":
        sink["no-primary-key"] = "skip"
    return sink
