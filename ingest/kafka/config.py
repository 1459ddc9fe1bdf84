"""The `source` section of a pipeline that reads Kafka topics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from penstock.errors import ConfigError
from penstock.ingest.messages.config import MessagesConfig
from penstock.settings import Strict, Text, check_mode

SPECIFIC = "partition:0,offset:42;partition:1,offset:300"


class KafkaStartup(Strict):
    mode: Literal["earliest-offset", "latest-offset", "group-offsets", "specific-offsets", "timestamp"] = (
        "group-offsets"
    )
    specific_offsets: str | None = None
    timestamp_millis: int | None = Field(default=None, ge=0)

    @field_validator("mode", mode="before")
    @classmethod
    def _by_its_short_name(cls, given: object) -> object:
        """Accept the short names, in upper or lower case as Flink does."""
        short = {"earliest": "earliest-offset", "latest": "latest-offset"}
        return short.get(given.lower(), given.lower()) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _has_options_of_its_mode(self) -> KafkaStartup:
        if self.mode == "specific-offsets" and not self.specific_offsets:
            raise ValueError("startup mode specific-offsets needs specific-offsets")
        if self.mode == "timestamp" and self.timestamp_millis is None:
            raise ValueError("startup mode timestamp needs timestamp-millis")
        check_mode(self, {"specific_offsets": "specific-offsets", "timestamp_millis": "timestamp"})
        return self


class Debezium(Strict):
    """How Debezium messages are read. The values are fixed, whatever the connector's settings; the keys exist to
    document this in a pipeline file.
    """

    decimal: Literal["auto"] = Field(default="auto", description="bytes, text or double, as the message declares it")
    time: Literal["auto"] = Field(default="auto", description="in the unit that the message declares")
    primary_key: Literal["from-message-key"] = Field(
        default="from-message-key", description="key columns, if neither `primary-keys` nor the envelope names them"
    )


class KafkaConfig(MessagesConfig):
    type: Literal["kafka"]
    properties: Text
    startup: KafkaStartup = KafkaStartup()
    debezium: Debezium = Debezium()
    tombstones: Literal["ignore"] = Field(
        default="ignore", description="tombstones are counted and skipped: the delete event precedes them"
    )

    @model_validator(mode="after")
    def _names_its_topics_one_way(self) -> KafkaConfig:
        self.check_topics("kafka_conf")
        if not self.properties.get("bootstrap.servers"):
            # The text of this error comes from Paimon's action, because users search for it.
            raise ValueError("kafka_conf [properties.bootstrap.servers] must be specified.")
        return self


def specific_offsets(text: str, first_topic: str) -> dict[tuple[str, int], int]:
    """Parse `[topic:t,]partition:0,offset:42;...`; entries without a topic belong to the first topic."""
    found: dict[tuple[str, int], int] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        fields = dict(item.split(":", 1) for item in part.split(",") if ":" in item)
        try:
            # Paimon's option has no topics and means the first one. Naming the topic is an addition.
            topic = fields.get("topic", first_topic).strip()
            partition, offset = int(fields["partition"]), int(fields["offset"])
            if partition < 0 or offset < 0:
                raise ValueError(part)
            found[topic, partition] = offset
        except (KeyError, ValueError) as error:
            raise ConfigError(
                "Invalid properties 'scan.startup.specific-offsets' should follow the format "
                f"'{SPECIFIC}', but is '{text}'.",
                hint="for example  partition:0,offset:42;partition:1,offset:300",
            ) from error
        if not topic:
            raise ConfigError(
                "start offsets for a topic pattern must include the topics",
                offsets=text,
                hint="write them as  topic:t,partition:0,offset:42;...",
            )
    return found
