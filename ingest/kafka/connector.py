"""The connector of Kafka topics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from penstock.errors import ConfigError, SourceError, counted
from penstock.ingest.connector import Capabilities, StartPlace
from penstock.ingest.connector_answers import Sampler, SourceCheck, SourceFinding, unverified
from penstock.ingest.connector_requests import Preparation, SourceRequest
from penstock.ingest.kafka.config import KafkaConfig, KafkaStartup, specific_offsets
from penstock.ingest.messages.connector import MessageConnector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.ingest.decoded_source import DecodedSource
    from penstock.ingest.kafka.settings import KafkaSettings
    from penstock.ingest.kafka.source import KafkaSource
    from penstock.ingest.source import Offsets
    from penstock.ingest.source_draft import DraftOptions, SourceDraft

log = logging.getLogger(__name__)

_DRAFT = """
source:
  type: kafka
  properties:                     # properties of the Java client; secrets by reference: "${{KAFKA_PASSWORD}}"
    bootstrap.servers: "{servers}"
  topic: [{topic}]
  value.format: {format}
  startup:
    mode: earliest-offset         # latest-offset | timestamp | specific-offsets | group-offsets
"""


class KafkaConnector(MessageConnector[KafkaConfig]):
    """Topics of messages in one of the registered formats."""

    name = "kafka"
    config = KafkaConfig
    capabilities = Capabilities(defers_ranges=True)
    references = frozenset({"properties", "schema-registry"})
    url_schemes = frozenset({"kafka"})
    url_form = "kafka://host:9092/topic"
    conf_flag = "kafka-conf"

    def messages(self, config: KafkaConfig, request: SourceRequest) -> KafkaSource:
        from penstock.ingest.kafka.source import KafkaSource

        return KafkaSource(self._settings(config, request))

    def check(self, config: KafkaConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        source = self.open(config, request)
        try:
            offsets = source.available()["offsets"]
        finally:
            source.close()
        partitions = sum(map(len, offsets.values()))
        servers = config.properties["bootstrap.servers"]
        place = f"Kafka at {servers}: {counted(len(offsets), 'topic')}, {counted(partitions, 'partition')}"
        return SourceCheck(place, self._unverified(config.properties))

    def _unverified(self, properties: Mapping[str, str]) -> list[SourceFinding]:
        from penstock.ingest.kafka.client import hosts
        from penstock.ingest.kafka.properties import is_verified

        if is_verified(properties):
            return []
        how = f"security.protocol {properties.get('security.protocol', 'PLAINTEXT')} does not verify the brokers"
        return unverified(hosts(properties), how, "properties: security.protocol: SSL or SASL_SSL, with a truststore")

    def kept_for(self, config: KafkaConfig, request: SourceRequest, seconds: float) -> list[SourceFinding]:
        from penstock.ingest.kafka.retention import retention_findings

        return retention_findings(self.messages(config, request), seconds)

    def prepare(self, config: KafkaConfig, request: SourceRequest, preparation: Preparation) -> DecodedSource:
        """Raise a SourceError for a new pipeline without a broker; a known broker is probably restarting."""
        from penstock.ingest.kafka.client import check_reachable

        try:
            check_reachable(config.properties)
        except SourceError as error:
            if preparation.is_new:
                raise
            log.warning("event=waiting_for_kafka brokers=%s reason=%s", error.facts["brokers"], error.facts["reason"])
        else:
            if preparation.is_new:
                self._check_start(config, request)
        return self.open(config, request)

    def _check_start(self, config: KafkaConfig, request: SourceRequest) -> None:
        """Raise the error of the first batch before tables are created for it."""
        # In the other modes the cluster itself gives the offsets.
        if config.startup.mode in {"group-offsets", "specific-offsets"}:
            self.resume_point(config, request, {})

    def resume_point(self, config: KafkaConfig, request: SourceRequest, reached: Offsets) -> None:
        """Raise PositionLost if the records after this position are gone. Consumes no records."""
        from penstock.ingest.source import Limit

        source = self.messages(config, request)
        try:
            source.latest_offsets(reached, Limit(rows=1))
        finally:
            source.close()

    def sampler(self, config: KafkaConfig, request: SourceRequest) -> Sampler:
        return Sampler(self.messages(config, request).sample, config.topic_pattern or ", ".join(config.topic))

    def starting_at(self, config: KafkaConfig, place: StartPlace) -> KafkaConfig:
        changes: dict[str, object] = (
            {"mode": "timestamp", "timestamp_millis": place} if isinstance(place, int) else {"mode": f"{place}-offset"}
        )
        startup = KafkaStartup.model_validate({**config.startup.model_dump(), **changes})
        return config.model_copy(update={"startup": startup})

    def draft(self, place: str, options: DraftOptions) -> SourceDraft:
        from penstock.ingest.source_draft import SourceDraft, recognised_format

        url = urlsplit(place)
        topic = url.path.strip("/")
        if not url.netloc or not topic:
            raise ConfigError("the URL contains no topic", hint=self.url_form)
        name, found = recognised_format(
            lambda: _first_messages(url.netloc, topic), options, "The topic was not examined."
        )
        return SourceDraft(_DRAFT.format(servers=url.netloc, topic=topic, format=name), found, topic)

    def _settings(self, config: KafkaConfig, request: SourceRequest) -> KafkaSettings:
        from penstock.ingest.kafka.settings import KafkaSettings, StartOffsets

        first_topic = config.topic[0] if config.topic else ""
        startup = StartOffsets(
            mode=config.startup.mode,
            offsets=specific_offsets(config.startup.specific_offsets or "", first_topic),
            millis=config.startup.timestamp_millis or 0,
            reset=_reset(config.properties.get("auto.offset.reset", "none")),
        )
        return KafkaSettings(
            config.properties,
            config.topic,
            config.topic_pattern,
            startup,
            self.extras(config, request),
            request.accept_gap,
        )


def _first_messages(servers: str, topic: str) -> list[bytes]:
    from penstock.ingest.kafka.settings import KafkaSettings, StartOffsets
    from penstock.ingest.kafka.source import KafkaSource
    from penstock.ingest.patience import patience
    from penstock.ingest.source import Limit
    from penstock.ingest.source_draft import EXAMINED

    source = KafkaSource(
        KafkaSettings({"bootstrap.servers": servers}, (topic,), startup=StartOffsets("earliest-offset"))
    )
    # A draft reports an unreachable broker at once.
    with patience(0.0):
        end = source.latest_offsets({}, Limit(rows=EXAMINED))
        ranges = source.plan({}, end, 1)
        return [v for range_ in ranges for fetched in source.read(range_) for v in fetched.messages.values if v]


def _reset(text: str) -> Literal["earliest", "latest", "none"]:
    match text:
        case "earliest" | "latest" | "none":
            return text
    raise ConfigError(f"properties.auto.offset.reset cannot be {text!r}", hint="earliest, latest or none")


CONNECTOR = KafkaConnector()
