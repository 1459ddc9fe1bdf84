"""Names of topics and of their partitions."""

from __future__ import annotations

import re
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]  # the full name of a topic and a partition, -1 if the topic has no partitions

_PARTITION = re.compile(r"(.*)-partition-(\d+)")
NO_PARTITION = -1


def full_name(topic: str) -> str:
    """Return the full name: `orders` is `persistent://public/default/orders`, `a/b/c` is `persistent://a/b/c`."""
    if "://" in topic:
        return topic
    return f"persistent://{topic}" if topic.count("/") == 2 else f"persistent://public/default/{topic}"


def place_of(partition: str) -> Place:
    """Return the topic and the number of a partition by its own full name."""
    found = _PARTITION.fullmatch(partition)
    return (found[1], int(found[2])) if found else (partition, NO_PARTITION)


def partition_name(place: Place) -> str:
    """Return the name under which a reader opens the partition."""
    topic, partition = place
    return topic if partition < 0 else f"{topic}-partition-{partition}"


def namespace_of(pattern: str) -> tuple[str, str]:
    """Return the namespace in which a pattern for topics matches, and the pattern for full names.

    As for names, a pattern without a namespace means public/default.
    """
    whole = full_name_pattern(pattern)
    tenant, namespace, _ = whole.partition("://")[2].split("/", 2)
    return f"{tenant}/{namespace}", whole


def full_name_pattern(pattern: str) -> str:
    if "://" in pattern:
        return pattern
    return (
        f"persistent://{pattern}"
        if re.match(r"[\w.-]+/[\w.-]+/", pattern)
        else f"persistent://public/default/{pattern}"
    )
