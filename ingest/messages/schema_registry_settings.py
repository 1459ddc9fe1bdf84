"""The settings of a schema registry, by the options of Kafka's clients. Plain data, sent to tasks."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from penstock.errors import ConfigError
from penstock.formats.debezium.schema_registry import SchemaRegistry
from penstock.ingest.messages.trust import trusted
from penstock.references import resolve

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
            raise ConfigError(
                "schema.registry.url must be specified.",
                hint="set it to the address of the registry, such as http://registry:8081",
            )
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
