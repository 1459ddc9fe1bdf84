"""Messages that brokers deleted before they were read: how this is noticed, and where a run that accepts it continues.

A reader looks again for the last message that it read. If nothing has been read from a partition yet, only the
subscription shows that there were messages.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.ingest.pulsar.errors import beginning_gone, messages_gone, unread_messages_gone
from penstock.ingest.pulsar.position import START, Position

if TYPE_CHECKING:
    from penstock.ingest.pulsar.admin import SubscriptionState
    from penstock.ingest.pulsar.cluster import PulsarCluster
    from penstock.ingest.pulsar.topics import Place

log = logging.getLogger(__name__)
_LOOKED_AT = 1000  # messages


def emptied_partitions(
    cluster: PulsarCluster, froms: Mapping[Place, Position], lasts: Mapping[Place, Position], *, accepts: bool
) -> dict[Place, Position]:
    """Return the start of partitions that end before the last message that was read.

    Such a partition has lost all its messages, or was created again under its name. PositionLost unless gaps are
    accepted: it may never receive a message that would show the loss.
    """
    found = {}
    for place, position in froms.items():
        last = lasts[place]
        if not position.is_message or (last.ledger, last.entry) >= (position.ledger, position.entry):
            continue
        error = messages_gone(*place, position, None if last == START else last)
        if not accepts:
            raise error
        log.warning("event=gap_accepted reason=%s", error.message)
        found[place] = _first_left(cluster.subscription(place))
    return found


def accepted_gaps(cluster: PulsarCluster, froms: Mapping[Place, Position]) -> dict[Place, Position]:
    """Return the first message left of each partition whose next ones were deleted.

    Called only if gaps are accepted. Otherwise the tasks notice a gap at no cost: the first message that they receive
    must be the last message of the previous batch.
    """
    gaps = {}
    for place, position in froms.items():
        if not position.is_message:
            continue
        # A reader begins at the first part of a message in chunks. Other messages may be between its parts.
        received = cluster.received(place, position, 5000, 1 if position.first_chunk is None else _LOOKED_AT)
        first = next((found for found, _, _ in received if found >= position), None)
        if first is not None and first.place != position.place:
            log.warning("event=gap_accepted reason=%s", messages_gone(*place, position, first).message)
            gaps[place] = Position.before(first.ledger, first.entry)
    return gaps


def lost_beginnings(cluster: PulsarCluster, named: Mapping[Place, Position], *, accepts: bool) -> None:
    """Raise PositionLost for an entry that a user named as the beginning and a partition no longer has.

    A reader would begin at the next entry that is left. An accepted gap is logged.
    """
    for place, position in named.items():
        first = next((found for found, _, _ in cluster.received(place, position, 5000, 1)), None)
        # Brokers delete whole ledgers. Of a ledger that is left, a reader may receive nothing: its last entries may be
        # markers, or the end of a message in chunks.
        if first is not None and first.ledger == position.ledger:
            continue
        ledgers = cluster.ledgers(place)
        if position.ledger in ledgers:
            continue
        error = beginning_gone(*place, position, first, looked_up=bool(ledgers))
        if not accepts:
            raise error
        log.warning("event=gap_accepted topic=%s partition=%d reason=%s", *place, error.message)


def lost_unread(cluster: PulsarCluster, froms: Mapping[Place, Position], *, accepts: bool) -> dict[Place, Position]:
    """Return the start of partitions that lost messages before any was read; PositionLost unless gaps are accepted.

    The subscription keeps all messages that the pipeline has not acknowledged. It is gone if the topic was deleted, and
    it has moved if something else acknowledged messages, such as a TTL. Only the admin interface shows both. It must be
    asked before the run subscribes.
    """
    found = {}
    for place, position in froms.items():
        state = cluster.subscription(place)
        if state is None:
            continue
        if state.exists and not _has_passed(state.acknowledged, position, state.ledgers):
            continue
        error = unread_messages_gone(*place, cluster.subscription_name, exists=state.exists)
        if not accepts:
            raise error
        log.warning("event=gap_accepted topic=%s partition=%d reason=%s", *place, error.message)
        found[place] = _first_left(state)
    return found


def _first_left(state: SubscriptionState | None) -> Position:
    """Return the start of a partition whose gap was accepted: a later run does not refuse the same gap again."""
    return Position.before(min(state.ledgers), 0) if state is not None and state.ledgers else START


def _has_passed(acknowledged: tuple[int, int], position: Position, ledgers: Mapping[int, int]) -> bool:
    """Return whether messages after the position were acknowledged, and are gone with their ledger."""
    ledger, entry = acknowledged
    # The pipeline itself acknowledges nothing after the position.
    return entry >= 0 and acknowledged >= (position.ledger, position.entry) and ledger not in ledgers
