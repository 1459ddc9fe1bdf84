"""The topics of ranges that were planned: one that is created again may end before them, for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.ingest.kafka.cluster import KafkaCluster, place_of
from penstock.ingest.kafka.lost_records import confirm_topics
from penstock.ingest.kafka.settings import KafkaSettings
from penstock.ingest.source import Range


def require_topics(properties: Mapping[str, str], ranges: Sequence[Range], *, accept_gap: bool = False) -> None:
    """Raise PositionLost if a topic of these ranges was created again since the plan, or SourceError with a gap."""
    planned = {place_of(range_)[0]: range_.mark for range_ in ranges if range_.mark}
    if planned:
        ids = KafkaCluster(properties).topic_ids(planned.keys())
        confirm_topics(KafkaSettings(properties, accept_gap=accept_gap), {"ids": planned}, ids)
