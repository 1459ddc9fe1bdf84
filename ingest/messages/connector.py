"""The base of connectors of message brokers: the format of the messages, its schema registry, the rule for keys."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

from penstock.errors import ConfigError
from penstock.ingest.connector import Connector
from penstock.ingest.connector_requests import KeylessRule, SourceRequest
from penstock.ingest.messages.config import MessagesConfig

if TYPE_CHECKING:
    from penstock.ingest.decoded_source import DecodedSource, MessageSource
    from penstock.ingest.fetched_messages import Extra

C = TypeVar("C", bound=MessagesConfig)


class MessageConnector(Connector[C]):
    """A connector whose sources yield messages in one of the registered formats.

    `conf_flag` is the flag of its action that takes options, for hints.
    """

    conf_flag: ClassVar[str]

    @abstractmethod
    def messages(self, config: C, request: SourceRequest) -> MessageSource:
        """Return the source of undecoded messages, without connecting to its server."""

    def open(self, config: C, request: SourceRequest) -> DecodedSource:
        from penstock.formats import format_named
        from penstock.ingest.decoded_source import DecodedSource
        from penstock.ingest.messages.schema_registry_settings import RegistrySettings

        value_format, registry = format_named(config.value_format), RegistrySettings.of(config.schema_registry)
        if value_format.needs_registry and registry is None:
            raise ConfigError(
                f"{value_format.name} needs a schema registry",
                hint=f"--{self.conf_flag} schema.registry.url=http://host:8081",
            )
        return DecodedSource(self.messages(config, request), value_format.name, registry)

    def keyless(self, config: C) -> KeylessRule:
        return "as-stated"

    def message_format(self, config: C) -> str:
        from penstock.formats import format_named

        return format_named(config.value_format).name

    def extras(self, config: C, request: SourceRequest) -> frozenset[Extra]:
        """Return the parts of a message that the pipeline or the format needs beside the value."""
        from penstock.formats import format_named

        keys: frozenset[Extra] = frozenset({"key"} if format_named(config.value_format).needs_key else ())
        return request.extras | keys
