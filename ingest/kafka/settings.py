"""The settings of a Kafka source. Plain data, sent to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.ingest.fetched_messages import Extra
from penstock.ingest.kafka.cluster import Place

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
    reset: Literal["earliest", "latest", "none"] = "none"  # for group-offsets, if the group has no offsets


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The settings of a Kafka source. `properties` are properties of the Java client, with secrets as references."""

    properties: Mapping[str, str]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    startup: StartOffsets = StartOffsets()
    extras: frozenset[Extra] = frozenset()
    accept_gap: bool = False  # skip lost records, with a warning in the log

    @property
    def group(self) -> str | None:
        return self.properties.get("group.id")
