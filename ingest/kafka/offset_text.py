"""Offsets of partitions as JSON writes them, by topic and then by the partition as text, and as code uses them."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.ingest.kafka.cluster import Place


def flat(nested_offsets: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    return {
        (topic, int(partition)): offset
        for topic, parts in nested_offsets.items()
        for partition, offset in parts.items()
    }


def nested(offsets: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset  # JSON keys are text
    return found
