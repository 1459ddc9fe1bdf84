"""The settings of a Pulsar source. Plain data, sent to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.ingest.fetched_messages import Extra
from penstock.ingest.pulsar.option_names import ADMIN_URL, SERVICE_URL, SUBSCRIPTION

StartupMode = Literal["earliest", "latest", "message-id", "publish-time"]


@dataclass(frozen=True, slots=True)
class PulsarStart:
    """The start of a pipeline without a checkpoint. `message_id` is ledger, entry and partition."""

    mode: StartupMode = "earliest"
    message_id: tuple[int, int, int] | None = None
    inclusive: bool = True
    millis: int = 0


@dataclass(frozen=True, slots=True)
class PulsarSettings:
    """The settings of a Pulsar source. `properties` have the names of Flink's connector, secrets as references.

    `reader` is the name of this pipeline among the consumers of the subscription.
    """

    properties: Mapping[str, str]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    startup: PulsarStart = PulsarStart()
    extras: frozenset[Extra] = frozenset()
    accept_gap: bool = False  # skip lost messages, with a warning in the log
    reader: str = "penstock"
    refuses_schema: str | None = None  # the format that cannot read messages with an Avro schema of Pulsar

    @property
    def service_url(self) -> str:
        return self.properties[SERVICE_URL]

    @property
    def admin_url(self) -> str | None:
        return self.properties.get(ADMIN_URL) or None

    @property
    def subscription(self) -> str:
        return self.properties[SUBSCRIPTION]
