"""The offsets at which a new pipeline begins to read topics, by its startup mode."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from penstock.errors import ConfigError
from penstock.ingest.kafka.cluster import Place
from penstock.ingest.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)


class Brokers(Protocol):
    """The answers of the brokers that a startup mode needs."""

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]: ...

    def latest(self, places: Iterable[Place]) -> dict[Place, int]: ...

    def at_time(self, places: Iterable[Place], millis: int) -> dict[Place, int]: ...

    def group_offsets(self, group: str, places: Iterable[Place]) -> dict[Place, int]: ...


def startup_offsets(brokers: Brokers, settings: KafkaSettings, places: Sequence[Place]) -> dict[Place, int]:
    """Return the first offset to read of each partition. ConfigError if its group has none and may not do without."""
    startup = settings.startup
    match startup.mode:
        case "earliest-offset":
            return brokers.earliest(places)
        case "latest-offset":
            return brokers.latest(places)
        case "timestamp":
            ends = brokers.latest(places)
            found = brokers.at_time(places, startup.millis)
            # -1 means that the partition has no record at or after this time.
            return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}
        case "specific-offsets":
            named = {place: startup.offsets[place] for place in places if place in startup.offsets}
            for topic, partition in sorted(startup.offsets.keys() - named.keys()):
                log.warning("event=startup_offset_without_partition topic=%s partition=%d", topic, partition)
            return brokers.earliest(set(places) - set(named)) | named
        case "group-offsets":
            return _of_group(brokers, settings, places)


def _of_group(brokers: Brokers, settings: KafkaSettings, places: Sequence[Place]) -> dict[Place, int]:
    group, reset = settings.group, settings.startup.reset
    committed = brokers.group_offsets(group, places) if group else {}
    uncommitted = [place for place in places if place not in committed]
    if uncommitted and reset == "none":
        topic, partition = uncommitted[0]
        raise ConfigError(
            "the consumer group has committed no offset to start from",
            group=group,
            topic=topic,
            partition=partition,
            hint="set scan.startup.mode=earliest-offset to read everything, or set properties.auto.offset.reset",
        )
    return committed | (brokers.earliest(uncommitted) if reset == "earliest" else brokers.latest(uncommitted))
