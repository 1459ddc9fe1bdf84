"""The common part of the actions of message brokers: options after --kafka-conf or --pulsar-conf as a section."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from penstock.errors import ConfigError, did_you_mean
from penstock.ingest.sync_actions import FlagValues, TranslatedSource, pairs, renamed

log = logging.getLogger(__name__)

REGISTRY = "schema.registry."
_ALIKE = 0.85  # options that are so similar to one with an effect may be meant as that


def common_keys(conf: Mapping[str, str], conf_name: str) -> dict[str, Any]:
    """Return the keys of the section that every broker has. `conf_name` is the flag's name in Paimon's errors."""
    if "value.format" not in conf:
        raise ConfigError(
            f"{conf_name} [value.format] must be specified.",
            hint=f"add  --{conf_name} value.format=FORMAT , with a format such as canal-json or debezium-json",
        )
    # Paimon separates topics by semicolons; commas are accepted too.
    named = (topic.strip() for topic in re.split("[;,]", conf.get("topic", "")))
    return {
        "topic": tuple(dict.fromkeys(topic for topic in named if topic)),
        "topic-pattern": conf.get("topic-pattern"),
        "value.format": conf["value.format"],
        "schema-registry": under(conf, REGISTRY),
    }


def refuse_misspelt(conf_name: str, key: str, read: Collection[str]) -> None:
    """Raise ConfigError if an option differs from one that is read in case and separators only.

    Connectors have no two such options.
    """
    meant = next((candidate for candidate in sorted(read) if candidate != key and _bare(candidate) == _bare(key)), None)
    if meant is not None:
        raise ConfigError(f"{conf_name} has no option {key}", hint=f"did you mean {meant}?")


def note_unread(conf_name: str, key: str, read: Collection[str]) -> None:
    """Log that an option has no effect, with the option that was probably meant.

    ConfigError for an option that is certainly misspelt.
    """
    refuse_misspelt(conf_name, key, read)
    note = did_you_mean(key, sorted(read), "the pipeline does not read this option", cutoff=_ALIKE)
    log.warning("event=%s_without_effect key=%s note=%s", conf_name, key, note)


def _bare(key: str) -> str:
    return re.sub("[-_.]", "", key).lower()


def under(conf: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the options that begin with the prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def translated_source(
    conf_flag: str,
    section: Callable[[Mapping[str, str]], dict[str, Any]],
    is_bounded: Callable[[Mapping[str, str]], bool],
    flags: FlagValues,
) -> TranslatedSource:
    """Return the sections that the flags of an action mean: a bounded source ends when the run has caught up."""
    conf = pairs(flags.get(conf_flag, ()))
    pipeline = {"until": "caught-up"} if is_bounded(conf) else {}
    return TranslatedSource(section(conf), pipeline, _sink_keys(flags))


def _sink_keys(flags: FlagValues) -> dict[str, Any]:
    """Return the keys of the section `sink` that flags of the source decide."""
    sink = renamed(flags, {"include-keyless": "no-primary-key"})
    # The flag says "leave-out" where the key of a file says "skip".
    if sink.get("no-primary-key") == "leave-out":
        sink["no-primary-key"] = "skip"
    return sink
