"""Offsets that are deferred for tables with a freshness: arithmetic with the positions of several batches."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from penstock.errors import PositionLost
from penstock.ingest.kafka.cluster import Place
from penstock.ingest.kafka.offset_text import flat, nested
from penstock.ingest.kafka.range_progress import ACCEPT_GAP
from penstock.ingest.source import Offsets

log = logging.getLogger(__name__)


def standing(start: Offsets) -> Offsets:
    """Return the end of a batch that begins at the end of this one and reads nothing."""
    return {name: start[name] for name in ("offsets", "ids", "epochs") if name in start}


def deferred(position: Offsets, end: Offsets) -> Offsets:
    """Return the position of tables that do not read the batch.

    A partition that the batch found begins where the batch begins in it. A gap that it accepted ends behind all that
    was deferred, or is in a partition that begins again.
    """
    gaps, epochs = flat(end.get("gaps", {})), flat(end.get("epochs", {}))
    offsets = flat(end.get("began", {})) | flat(position.get("offsets", {})) | gaps
    found: Offsets = {"offsets": nested(offsets), "ids": {**position.get("ids", {}), **end.get("ids", {})}}
    # An offset that does not change keeps its epoch, so that lost records behind it are still noticed.
    again = {place: epoch for place, epoch in epochs.items() if place in gaps}
    epochs = {place: epoch for place, epoch in epochs.items() if place in offsets}
    if epochs := epochs | flat(position.get("epochs", {})) | again:
        found["epochs"] = nested(epochs)
    return found


def behind(position: Offsets, newest: Offsets) -> int:
    at, ends = flat(position.get("offsets", {})), flat(newest.get("offsets", {}))
    return sum(max(0, end - at.get(place, 0)) for place, end in ends.items())


def oldest(positions: Sequence[Offsets]) -> Offsets:
    found: dict[Place, int] = {}
    for position in positions:
        for place, offset in flat(position.get("offsets", {})).items():
            found[place] = min(offset, found.get(place, offset))
    return {"offsets": nested(found)}


def past_vanished(begin: Offsets, end: Offsets, newest: Offsets, *, accept_gap: bool) -> Offsets:
    """Return the end of a deferred range, past the partitions that do not exist any more if gaps are accepted.

    Each partition with records is a part of every range, so a partition without progress has vanished with its deferred
    records.
    """
    froms, ends, wanted = flat(begin["offsets"]), flat(end["offsets"]), flat(newest["offsets"])
    gone = {place: wanted[place] for place in wanted if froms.get(place, 0) == ends.get(place, 0) < wanted[place]}
    for (topic, partition), offset in sorted(gone.items()):
        if not accept_gap:
            raise _vanished(topic, partition, froms, offset)
        log.warning(
            "event=gap_accepted topic=%s partition=%d from=%d to=%d",
            *(topic, partition, froms.get((topic, partition), 0), offset),
        )
    return {**end, "offsets": nested(ends | gone), "gaps": nested(flat(end.get("gaps", {})) | gone)} if gone else end


def _vanished(topic: str, partition: int, froms: Mapping[Place, int], end: int) -> PositionLost:
    offset = froms.get((topic, partition), 0)
    return PositionLost(
        "the Kafka partition does not exist any more, and its last records were not read for all tables",
        topic=topic,
        partition=partition,
        stopped_at=offset,
        lost=end - offset,
        hint=ACCEPT_GAP,
    )
