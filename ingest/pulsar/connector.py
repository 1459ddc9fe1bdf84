"""The connector of Pulsar topics."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.errors import ConfigError, SourceError, counted, did_you_mean, without_logins
from penstock.ingest.connector import ENTRIES, Capabilities, StartPlace
from penstock.ingest.connector_answers import Sampler, SourceCheck, SourceFinding, unverified
from penstock.ingest.connector_requests import Preparation, SourceRequest
from penstock.ingest.messages.connector import MessageConnector
from penstock.ingest.pulsar.config import PulsarConfig, PulsarStartup
from penstock.ingest.pulsar.option_names import ACTED_ON, INSECURE, SERVICE_URL, SUBSCRIPTION, TRUSTED
from penstock.references import resolve

if TYPE_CHECKING:
    from penstock.ingest.decoded_source import DecodedSource
    from penstock.ingest.pulsar.admin import PulsarAdmin
    from penstock.ingest.pulsar.cluster import PulsarCluster
    from penstock.ingest.pulsar.settings import PulsarSettings
    from penstock.ingest.pulsar.source import PulsarSource
    from penstock.ingest.pulsar.topics import Place
    from penstock.ingest.source_draft import DraftOptions, SourceDraft

log = logging.getLogger(__name__)

_DRAFT = """
source:
  type: pulsar
  properties:                       # options of the Java client by their names in Flink; secrets: "${{PULSAR_TOKEN}}"
    pulsar.client.serviceUrl: {service}
    pulsar.consumer.subscriptionName: penstock-{name}   # of this pipeline alone
    # pulsar.admin.adminUrl: http://host:8080           # lets  check  find wrong names, and makes the lag exact
  topic: ["{topic}"]
  value.format: {format}
  startup:
    mode: earliest                  # latest | message-id | publish-time
"""

_UNSEEN_LOSSES = (
    "without pulsar.admin.adminUrl a run does not notice that a partition has lost messages before any was read: by a"
    " message TTL, by another user of the subscription, or because the topic or the subscription was deleted"
)
_SET_ADMIN = "set pulsar.admin.adminUrl, for example to http://broker:8080"
# Types of Pulsar's schemas whose messages are the bytes that the producer has given, or JSON. None is no schema.
_READABLE = {None, "NONE", "BYTES", "STRING", "JSON", "AUTO_CONSUME"}


class PulsarConnector(MessageConnector[PulsarConfig]):
    """Topics of messages in one of the registered formats."""

    name = "pulsar"
    config = PulsarConfig
    capabilities = Capabilities(keeps_state=True, lag_unit=ENTRIES, numbers_messages=False)
    references = frozenset({"properties", "schema-registry"})
    conf_flag = "pulsar-conf"
    url_schemes = frozenset({"pulsar", "pulsar+ssl"})
    url_form = "pulsar://host:6650/topic"

    def messages(self, config: PulsarConfig, request: SourceRequest) -> PulsarSource:
        from penstock.ingest.pulsar.source import PulsarSource

        return PulsarSource(self._settings(config, request))

    def check(self, config: PulsarConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        """Describe the topics. Creates neither topics nor the subscription."""
        from penstock.ingest.pulsar.cluster import PulsarCluster

        cluster = PulsarCluster(self._settings(config, request))
        places = cluster.partitions()
        topics = len({topic for topic, _ in places})
        found = f"{counted(topics, 'topic')}, {counted(len(places), 'partition')}"
        shown = f"Pulsar at {config.properties[SERVICE_URL]}: {found}"
        return SourceCheck(shown, tuple(_findings(cluster, places, config, self._settings(config, request))))

    def prepare(self, config: PulsarConfig, request: SourceRequest, preparation: Preparation) -> DecodedSource:
        """Raise a SourceError for a new pipeline without a broker; a known broker is probably restarting."""
        from penstock.ingest.pulsar.client import check_reachable
        from penstock.ingest.pulsar.cluster import PulsarCluster

        try:
            check_reachable(config.properties)
        except SourceError as error:
            if preparation.is_new:
                raise
            log.warning(
                "event=waiting_for_pulsar broker=%s reason=%s", error.facts["service_url"], error.facts["reason"]
            )
        settings = self._settings(config, request)
        if not settings.admin_url:
            log.warning("event=losses_not_visible note=%s hint=%s", _UNSEEN_LOSSES, _SET_ADMIN)
        if preparation.is_new and settings.admin_url:
            # A subscription creates its topic if it does not exist, so a wrong name would never be noticed.
            cluster = PulsarCluster(settings)
            for finding in _findings(cluster, cluster.partitions(), config, settings):
                if finding.level == "error":
                    raise SourceError(finding.message, hint=finding.fix)
        return self.open(config, request)

    def sampler(self, config: PulsarConfig, request: SourceRequest) -> Sampler:
        return Sampler(self.messages(config, request).sample, config.topic_pattern or ", ".join(config.topic))

    def starting_at(self, config: PulsarConfig, place: StartPlace) -> PulsarConfig:
        changes: dict[str, object] = (
            {"mode": "publish-time", "publish_time": place} if isinstance(place, int) else {"mode": place}
        )
        startup = PulsarStartup.model_validate({**config.startup.model_dump(), **changes})
        return config.model_copy(update={"startup": startup})

    def draft(self, place: str, options: DraftOptions) -> SourceDraft:
        from penstock.ingest.source_draft import SourceDraft, recognised_format

        url = urlsplit(place)
        topic = url.path.strip("/")
        if not url.netloc or topic.count("/") not in {0, 2} or not topic:
            raise ConfigError(
                "the URL contains no topic", hint=f"{self.url_form}, or pulsar://host:6650/tenant/namespace/topic"
            )
        service, name = f"{url.scheme}://{url.netloc}", topic.rpartition("/")[2]
        value_format, found = recognised_format(
            lambda: _first_messages(service, topic), options, "The topic was not examined."
        )
        section = _DRAFT.format(service=service, name=name, topic=topic, format=value_format)
        return SourceDraft(section, found, name)

    def _settings(self, config: PulsarConfig, request: SourceRequest) -> PulsarSettings:
        _check_installed()
        from penstock.formats import format_named
        from penstock.ingest.pulsar.settings import PulsarSettings, PulsarStart

        startup = PulsarStart(
            config.startup.mode, config.startup.id_parts, config.startup.inclusive, config.startup.publish_time or 0
        )
        return PulsarSettings(
            config.properties,
            config.topic,
            config.topic_pattern,
            startup,
            self.extras(config, request),
            request.accept_gap,
            # The same in all processes of a pipeline, and another for each checkpoint.
            refuses_schema=config.value_format if format_named(config.value_format).needs_registry else None,
            reader=f"penstock-{zlib.crc32(request.state.location.encode()):08x}",
        )


def _first_messages(service: str, topic: str) -> list[bytes]:
    """Return the first messages of a topic. Creates no subscription."""
    _check_installed()
    from penstock.ingest.patience import patience
    from penstock.ingest.pulsar.settings import PulsarSettings
    from penstock.ingest.pulsar.source import PulsarSource
    from penstock.ingest.source_draft import EXAMINED

    source = PulsarSource(PulsarSettings({SERVICE_URL: service, SUBSCRIPTION: "penstock"}, (topic,)))
    try:
        # A draft reports an unreachable broker at once.
        with patience(0.0):
            ranges = source.sample(EXAMINED)
            return [v for range_ in ranges for fetched in source.read(range_) for v in fetched.messages.values if v]
    finally:
        source.close()


def _check_installed() -> None:
    try:
        import pulsar  # noqa: F401  only looked for
    except ImportError as error:
        raise ConfigError(
            f"sources of type pulsar need pulsar-client: {error}", hint="pip install pulsar-client"
        ) from error


def _findings(
    cluster: PulsarCluster, places: list[Place], config: PulsarConfig, settings: PulsarSettings
) -> Iterator[SourceFinding]:
    """Yield findings about options without effect, and what the admin interface knows of topics and subscriptions."""
    from penstock.ingest.pulsar.properties import is_verified, without_effect

    if not is_verified(config.properties):
        url = resolve(config.properties[SERVICE_URL])
        hosts = [urlsplit(f"//{part}").hostname or "" for part in url.partition("//")[2].split(",")]
        fix = f"{SERVICE_URL}: pulsar+ssl://host:6651, with {TRUSTED} and without {INSECURE}"
        yield from unverified(hosts, f"{SERVICE_URL} {without_logins(url)} does not verify the brokers", fix)
    for name in without_effect(config.properties):
        fix = did_you_mean(name, sorted(ACTED_ON), "remove it", cutoff=0.8)
        yield SourceFinding("warning", f"the option {name} has no effect", fix)
    admin = cluster.admin
    if admin is None:
        yield SourceFinding(
            "warning",
            "without pulsar.admin.adminUrl neither the existence of topics nor other users of the subscription "
            "can be checked",
            _SET_ADMIN,
        )
        yield SourceFinding("warning", _UNSEEN_LOSSES, _SET_ADMIN)
        return
    yield from _consumer_findings(admin, places, settings)
    yield from _topic_findings(admin, sorted({topic for topic, _ in places}))


def _consumer_findings(admin: PulsarAdmin, places: list[Place], settings: PulsarSettings) -> Iterator[SourceFinding]:
    """Yield findings about partitions that do not exist, or whose subscription has another consumer."""
    from penstock.ingest.pulsar.errors import NO_TOPIC
    from penstock.ingest.pulsar.topics import partition_name

    for place in places:
        consumers = admin.consumers(place, settings.subscription)
        if consumers is None:
            yield SourceFinding("error", f"the topic {partition_name(place)} does not exist", NO_TOPIC, 3)
            continue
        others = sorted(set(consumers) - {settings.reader})
        if others:
            yield SourceFinding(
                "error",
                f"the subscription {settings.subscription} of {partition_name(place)} has another consumer: "
                f"{', '.join(others)}; messages that one acknowledges may be lost to the other",
                "set pulsar.consumer.subscriptionName to another name for each pipeline",
                3,
            )


def _topic_findings(admin: PulsarAdmin, topics: list[str]) -> Iterator[SourceFinding]:
    """Yield findings about topics whose messages cannot be read, or are deleted by time."""
    for topic in topics:
        kind = admin.schema_type(topic)
        if kind not in _READABLE:
            yield SourceFinding(
                "error",
                f"the messages of {topic} have a schema of Pulsar of type {kind}, which no message format reads",
                "publish them as bytes or JSON in one of the message formats",
                3,
            )
        seconds = admin.message_ttl(topic)
        if seconds:
            yield SourceFinding(
                "warning",
                f"messages of {topic} are deleted after {seconds} s, even if the pipeline has not read them",
                "raise the message TTL of the namespace above the longest outage",
            )


CONNECTOR = PulsarConnector()
