"""The `source` section of a pipeline that reads Pulsar topics."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from penstock.errors import nearest
from penstock.ingest.messages.config import MessagesConfig
from penstock.ingest.pulsar.option_names import SERVICE_URL, SUBSCRIPTION, spelled
from penstock.settings import Strict, Text, check_mode


class PulsarStartup(Strict):
    """The start of a pipeline without a checkpoint."""

    mode: Literal["earliest", "latest", "message-id", "publish-time"] = "earliest"
    message_id: str | None = Field(default=None, description="ledger,entry,partition")
    inclusive: bool = Field(default=True, description="whether the message with this id is read")
    publish_time: int | None = Field(default=None, ge=0, description="milliseconds since 1970")

    @field_validator("message_id")
    @classmethod
    def _has_three_numbers(cls, given: str | None) -> str | None:
        if given is not None and not re.fullmatch(r"\s*\d+\s*,\s*\d+\s*,\s*-?\d+\s*", given):
            raise ValueError(f"message-id {given!r} is not ledger,entry,partition, such as 12,5,-1")
        return given

    @model_validator(mode="after")
    def _has_options_of_its_mode(self) -> PulsarStartup:
        if self.mode == "message-id" and self.message_id is None:
            raise ValueError("startup mode message-id needs message-id")
        if self.mode == "publish-time" and self.publish_time is None:
            raise ValueError("startup mode publish-time needs publish-time")
        check_mode(self, {"message_id": "message-id", "publish_time": "publish-time"})
        return self

    @property
    def id_parts(self) -> tuple[int, int, int] | None:
        """The numbers of `message-id`: ledger, entry and partition, the latter -1 for a topic without partitions."""
        if self.message_id is None:
            return None
        ledger, entry, partition = map(int, self.message_id.split(","))
        return ledger, entry, partition


class PulsarConfig(MessagesConfig):
    type: Literal["pulsar"]
    properties: Text = Field(
        description="options of the client and its subscription by their names in Flink's connector"
    )
    startup: PulsarStartup = PulsarStartup()

    @field_validator("properties")
    @classmethod
    def _in_their_case(cls, given: dict[str, str]) -> dict[str, str]:
        return {spelled(name): value for name, value in given.items()}

    @model_validator(mode="after")
    def _is_complete(self) -> PulsarConfig:
        # The texts of these errors come from Paimon's action, because users search for them.
        self.check_topics("pulsar_conf")
        for name in (SERVICE_URL, SUBSCRIPTION):
            if not self.properties.get(name):
                near = nearest(name, self.properties, 0.8)
                raise ValueError(
                    f"pulsar_conf [{name}] must be specified." + (f" There is no option {near}." if near else "")
                )
        for topic in self.topic:
            if topic.startswith("non-persistent://"):
                raise ValueError(
                    f"{topic} keeps no messages, so a pipeline could not read them again after a failure: "
                    "publish to a persistent:// topic"
                )
        return self
