"""Partitions whose log was cut and has grown again: other records are now at the offsets that were read.

A leader that was behind, or a broker that lost its last writes, begins a new leader epoch where its log ends. From then
on no offset shows that records were lost. So the offsets of a batch record the epoch in which they were valid. If it is
another one later, the leader is asked where the log of the recorded epoch ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from penstock.errors import SourceError
from penstock.ingest.kafka.broker_errors import PATIENCE_SECONDS, broker_error, is_passing, is_unknown_topic
from penstock.ingest.kafka.client import REQUEST_SECONDS, consumed, consumer
from penstock.ingest.kafka.cluster import Place
from penstock.ingest.kafka.offset_text import flat
from penstock.ingest.patience import patience_seconds
from penstock.ingest.source import Offsets

log = logging.getLogger(__name__)
_WAIT_SECONDS = 0.2
_MANY = 100
# A new client that connects and asks needs a moment, so this is the shortest wait, also without patience.
ANSWER_SECONDS = REQUEST_SECONDS
# A few records of each partition are enough, whatever they contain. Records of aborted transactions are read too: a
# client that leaves them out returns nothing until it has read past all of them.
ANY_RECORDS = {
    "fetch.message.max.bytes": "65536",
    "queued.max.messages.kbytes": "1024",
    "isolation.level": "read_uncommitted",
}
_NO_ANSWER = (
    "look for errors of the partition's leader; if it does not support the request OffsetForLeaderEpoch, use "
    "--accept-gap to continue without this comparison"
)
_LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE)


def recorded_epochs(offsets: Offsets, renewed: Collection[str]) -> dict[Place, int]:
    """Return the epochs of the offsets, without topics that were created again: their epochs begin again too."""
    return {place: epoch for place, epoch in flat(offsets.get("epochs", {})).items() if place[0] not in renewed}


@dataclass(slots=True)
class LeaderEpochs:
    """Compares the epochs of offsets with those of the leaders. A partition is examined once for each new epoch."""

    properties: Mapping[str, str]
    accept_gap: bool = False  # continue if a leader does not answer
    connect: Callable[[Mapping[str, str], Mapping[str, str]], Consumer] = consumer
    _examined: dict[Place, tuple[int, int, int]] = field(default_factory=dict, repr=False)

    def cut(
        self, offsets: Mapping[Place, int], recorded: Mapping[Place, int], current: Mapping[Place, int]
    ) -> set[Place]:
        """Return the partitions whose log was cut before the offset since its epoch was recorded."""
        states = {
            place: (offset, recorded[place], current[place])
            for place, offset in offsets.items()
            if offset and place in recorded and current.get(place, recorded[place]) != recorded[place]
        }
        asked = {place: state[:2] for place, state in states.items() if self._examined.get(place) != state}
        cut = self._shorter(asked) if asked else set()
        self._examined |= {place: states[place] for place in asked if place not in cut}
        return cut

    def _shorter(self, asked: Mapping[Place, tuple[int, int]]) -> set[Place]:
        """Return the places at which the log of the epoch ends before the offset, by (offset, epoch)."""
        waiting, cut = set(asked), set[Place]()
        began = time.monotonic()
        with closing(self.connect(self.properties, ANY_RECORDS)) as client:
            # The client compares the epoch before it fetches the first record.
            client.assign([TopicPartition(*place, offset, "", epoch) for place, (offset, epoch) in asked.items()])
            while waiting and time.monotonic() - began < max(patience_seconds(PATIENCE_SECONDS), ANSWER_SECONDS):
                for message in consumed(client, _MANY, _WAIT_SECONDS):
                    place = message.topic(), message.partition()
                    if place in waiting and (is_lost := _is_lost(message)) is not None:
                        waiting.discard(place)
                        cut |= {place} if is_lost else set()
        self._note_unanswered({place: asked[place] for place in waiting})
        return cut

    def _note_unanswered(self, asked: Mapping[Place, tuple[int, int]]) -> None:
        for (topic, partition), (offset, epoch) in sorted(asked.items()):
            if not self.accept_gap:
                raise SourceError(
                    "no answer from Kafka about the leader epoch of a partition",
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    epoch=epoch,
                    retryable=True,
                    hint=_NO_ANSWER,
                )
            log.warning("event=leader_epoch_not_compared topic=%s partition=%d offset=%d", topic, partition, offset)


def _is_lost(message: Message) -> bool | None:
    """Return whether the position is lost, by a record, an end or an error; None if the answer is still to come."""
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return False
    if error.code() in _LOST:
        return True
    if is_passing(error) or is_unknown_topic(error):
        return None
    raise broker_error(error, topic=message.topic(), partition=message.partition())
