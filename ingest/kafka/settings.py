"""The settings of a Kafka source and of its schema registry. Plain data, sent to tasks."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from penstock.errors import ConfigError
from penstock.formats.debezium.schema_registry import SchemaRegistry
from penstock.ingest.decoded_source import Extra
from penstock.ingest.kafka.cluster import Place
from penstock.ingest.kafka.properties import trusted
from penstock.references import resolve

StartupMode = Literal["earliest-offset", "latest-offset", "group-offsets", "specific-offsets", "timestamp"]


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """The start of a pipeline without a checkpoint.

    Afterwards the checkpoint decides, and new partitions are read from their first record.
    """

    mode: StartupMode = "group-offsets"
    # specific-offsets; other partitions begin at their first record
    offsets: Mapping[Place, int] = field(default_factory=dict)
    millis: int = 0
    reset: Literal["earliest", "latest", "none"] = "none"  # group-offsets, if the group has none


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The settings of a Kafka source. `properties` are those of the Java client, secrets as references."""

    properties: Mapping[str, str]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    startup: StartOffsets = StartOffsets()
    extras: frozenset[Extra] = frozenset()
    accept_gap: bool = False  # skip lost records, with a warning in the log

    @property
    def group(self) -> str | None:
        return self.properties.get("group.id")


_KNOWN = {"url", "basic.auth.user.info", "basic.auth.credentials.source"}
_TLS = "ssl."


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The options after `schema.registry.` as in Kafka's clients; secrets as references."""

    options: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> RegistrySettings | None:
        """Return the settings, None if there are no options; ConfigError for an unknown option."""
        if not options:
            return None
        for name in options:
            if name not in _KNOWN and not name.startswith(_TLS):
                raise ConfigError(
                    f"schema.registry.{name} is unknown", hint=f"the options are {', '.join(sorted(_KNOWN))} and ssl.*"
                )
        if "url" not in options:
            raise ConfigError("schema.registry.url must be specified.")
        return cls(tuple(sorted(options.items())))

    def client(self) -> SchemaRegistry:
        """Return the client, one per process."""
        return _client(self)


@lru_cache(maxsize=8)
def _client(settings: RegistrySettings) -> SchemaRegistry:
    options = {name: resolve(value) for name, value in settings.options}
    tls = {name: value for name, value in options.items() if name.startswith(_TLS)}
    return SchemaRegistry(
        options["url"], user_info=options.get("basic.auth.user.info"), tls=_context(tls) if tls else None
    )


def _context(options: Mapping[str, str]) -> ssl.SSLContext:
    trust = trusted(options)
    return ssl.create_default_context(
        cafile=trust.get("ssl.ca.location") or options.get("ssl.ca.location"), cadata=trust.get("ssl.ca.pem")
    )
