"""Records that a topic no longer has: an error, or a gap that the settings accept."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from penstock.errors import PositionLost, SourceError
from penstock.ingest.kafka.cluster import NO_ID, Place
from penstock.ingest.kafka.range_progress import ACCEPT_GAP
from penstock.ingest.kafka.settings import KafkaSettings
from penstock.ingest.source import Offsets

log = logging.getLogger(__name__)
_FROM_FIRST = (
    "a leader that was behind was elected, or a broker lost its last writes: use --accept-gap to read the partition "
    "again from its first record; set unclean.leader.election.enable=false to prevent this"
)


def renewed_topics(start: Offsets, ids: Mapping[str, str]) -> set[str]:
    """Return the topics that were deleted and created again since the offsets were recorded.

    Older offsets may have recorded that an id was unknown. An update of the broker gives one to each topic.
    """
    recorded = {topic: id_ for topic, id_ in start.get("ids", {}).items() if id_ != NO_ID}
    return {topic for topic, known in recorded.items() if ids.get(topic, known) != known}


def recreated_topics(settings: KafkaSettings, start: Offsets, ids: Mapping[str, str]) -> set[str]:
    """Return the renewed topics. PositionLost if there are any, unless the settings accept a gap."""
    renewed = renewed_topics(start, ids)
    for topic in sorted(renewed):
        if not settings.accept_gap:
            raise PositionLost(
                ("the Kafka topic was deleted and created again, so the offsets in the checkpoint are no longer valid"),
                topic=topic,
                hint=f"{ACCEPT_GAP} and start with the first record of the new topic",
            )
        log.warning("event=topic_made_again topic=%s", topic)
    return renewed


def gone_topics(settings: KafkaSettings, end: Offsets, ids: Mapping[str, str | None]) -> set[str]:
    """Return the topics that have no record of a planned batch any more: they were deleted since.

    PositionLost if there are any, unless the settings accept a gap. `ids` are the current ids of the topics.
    """
    known = {topic: id_ for topic, id_ in end.get("ids", {}).items() if topic in ids}
    gone = {topic for topic in known if ids[topic] is None}
    for topic in sorted(gone):
        if not settings.accept_gap:
            raise PositionLost(
                "the Kafka topic does not exist any more, and its last records were planned but not read",
                topic=topic,
                hint=ACCEPT_GAP,
            )
        log.warning("event=gap_accepted topic=%s reason=the topic does not exist any more", topic)
    existing = {topic: id_ for topic, id_ in ids.items() if id_ is not None}
    return gone | recreated_topics(settings, {"ids": known}, existing)


def confirm_topics(settings: KafkaSettings, end: Offsets, ids: Mapping[str, str | None]) -> None:
    """Raise a SourceError if a topic of a batch that was read was created again since its plan.

    A topic that was deleted since is no error: the batch has its records.
    """
    renewed = recreated_topics(settings, end, {topic: id_ for topic, id_ in ids.items() if id_ is not None})
    if renewed:
        raise SourceError(
            "a Kafka topic was deleted and created again while a batch was read; nothing of the batch was committed",
            topics=", ".join(sorted(renewed)),
            hint="run the pipeline again with --accept-gap: it begins with the first record of the new topic",
            retryable=True,
        )


def gap_ends(
    settings: KafkaSettings,
    froms: Mapping[Place, int],
    firsts: Mapping[Place, int],
    ends: Mapping[Place, int],
    renewed: Collection[str],
    cut: Collection[Place],
    *,
    configured: bool,
) -> dict[Place, int]:
    """Return the new start of each partition that has lost the next records; `firsts` are its first records left.

    The log of the partitions in `cut` ended before the offset once, and has grown again.
    With `configured` the offsets were never read but come from the settings, which changes the error.
    """
    found: dict[Place, int] = {}
    for place, offset in froms.items():
        first, end = firsts[place], ends[place]
        # Records are lost at the start by retention, and at the end by the election of a leader that was behind.
        if place[0] not in renewed and place not in cut and first <= offset <= max(end, first):
            continue
        if not settings.accept_gap:
            if configured:
                raise _not_there(settings, place, offset, first, end)
            is_replaced = first <= offset <= end
            raise (_replaced if is_replaced else _lost)(place, offset, first, end)
        log.warning("event=gap_accepted topic=%s partition=%d from=%d to=%d", *place, offset, first)
        # For a partition that ends too early this goes back: the records from its first one on are read again.
        found[place] = first
    return found


def _not_there(settings: KafkaSettings, place: Place, offset: int, first: int, end: int) -> PositionLost:
    """Return the error for a first start at an offset outside the partition."""
    specific = settings.startup.mode == "specific-offsets"
    whose = "scan.startup.specific-offsets contains" if specific else "the consumer group has committed"
    then = f"set an offset from {first} to {end}" if specific else f"{ACCEPT_GAP} and start with the first record"
    return PositionLost(
        f"{whose} an offset that the Kafka partition "
        + ("no longer has" if offset < first else "does not have yet: it ends before"),
        topic=place[0],
        partition=place[1],
        group=None if specific else settings.group,
        asked_for=offset,
        kept=f"{first} to {end}",
        hint=f"{then}; or start with scan.startup.mode set to earliest-offset, latest-offset or timestamp",
    )


def _lost(place: Place, offset: int, first: int, end: int) -> PositionLost:
    gone = offset < first
    return PositionLost(
        "the Kafka records at the pipeline's last position were deleted"
        if gone
        else "the Kafka partition ends before the pipeline's last position",
        topic=place[0],
        partition=place[1],
        stopped_at=offset,
        kept=f"{first} to {end}",
        lost=first - offset if gone else None,
        hint=f"{ACCEPT_GAP}; increase retention.ms to prevent this" if gone else _FROM_FIRST,
    )


def _replaced(place: Place, offset: int, first: int, end: int) -> PositionLost:
    return PositionLost(
        "the Kafka partition lost its last records, and has other records at their offsets now",
        topic=place[0],
        partition=place[1],
        stopped_at=offset,
        kept=f"{first} to {end}",
        hint=_FROM_FIRST,
    )
