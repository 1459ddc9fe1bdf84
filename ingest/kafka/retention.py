"""How long topics keep their records, compared with how long records are deferred for tables with a freshness."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from penstock.errors import SourceError
from penstock.ingest.connector_answers import SourceFinding
from penstock.ingest.kafka.client import REQUEST_SECONDS, admin
from penstock.ingest.kafka.source import KafkaSource

_MARGIN = 2  # a run that is stopped for a while, or a long batch, must not cost records
_ENOUGH = "set retention.ms to more than twice the freshness, or shorten freshness"


def retention_findings(source: KafkaSource, seconds: float) -> list[SourceFinding]:
    """Return a warning for topics that keep records for less than twice this time, or that do not say it."""
    try:
        kept = _retention_millis(source)
    except (KafkaException, SourceError) as error:
        message = error.message if isinstance(error, SourceError) else str(error.args[0])
        return [SourceFinding("warning", f"the retention of the topics cannot be read: {message}", _ENOUGH)]
    finally:
        source.close()
    short = {topic: millis for topic, millis in kept.items() if 0 <= millis < _MARGIN * seconds * 1000}
    return [
        SourceFinding(
            "warning",
            f"the topic {topic} keeps records for {millis / 1000:g} s, and they are deferred for up to {seconds:g} s",
            _ENOUGH,
        )
        for topic, millis in sorted(short.items())
    ]


def _retention_millis(source: KafkaSource) -> dict[str, int]:
    """Return how long each topic keeps records by its settings; -1 is for ever, as for topics without deletion."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in source.topics()]
    if not resources:
        return {}
    client = admin(source.settings.properties)  # kept until the answers are there, or they do not come
    answers = client.describe_configs(resources, request_timeout=REQUEST_SECONDS)
    found: dict[str, int] = {}
    for resource, answer in answers.items():
        settings = answer.result(timeout=REQUEST_SECONDS)
        deletes = "delete" in settings["cleanup.policy"].value
        found[resource.name] = int(settings["retention.ms"].value) if deletes else -1
    return found
