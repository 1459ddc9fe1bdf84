"""Fetches small ranges of several Kafka partitions at once.

A range is read when its partition is assigned to the consumer and the broker has answered. One after the other, the
ranges of a topic with many partitions, or of many topics, would wait for as many answers, for a few records each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition

from penstock.errors import PenstockError
from penstock.ingest.kafka.broker_errors import PATIENCE_SECONDS
from penstock.ingest.kafka.client import consumed
from penstock.ingest.kafka.cluster import Place, place_of
from penstock.ingest.kafka.planned_topics import require_topics
from penstock.ingest.kafka.range_progress import RangeProgress
from penstock.ingest.kafka.read import WAIT_SECONDS, consumer_of, mean_size, renewed
from penstock.ingest.source import Range

# The records of ranges that are fetched together are in memory together.
MOST_RECORDS = 5_000
MOST_BYTES = 8 << 20


class RangesAhead:
    """The ranges to read, in order. Small ranges that follow each other are fetched at once."""

    def __init__(self, properties: Mapping[str, str], ranges: Sequence[Range]) -> None:
        self._properties = properties
        self._group_of = {range_: group for group in _groups(ranges) for range_ in group}
        self._fetched: dict[Range, Sequence[Message]] = {}

    def take(self, range_: Range) -> Sequence[Message] | None:
        """Return the records of a range, None if it is to be read alone."""
        group = self._group_of.pop(range_, None)
        if group is not None and range_ not in self._fetched:
            try:
                self._fetched = fetch_together(self._properties, group)
            except PenstockError as error:
                if error.retryable:  # the wait for the broker is over for all of them
                    raise
                # Read alone, a range that cannot be read raises its error where it is expected, and the others do not.
                for member in group:
                    self._group_of.pop(member, None)
        return self._fetched.pop(range_, None)


def fetch_together(
    properties: Mapping[str, str], ranges: Sequence[Range], patience: float = PATIENCE_SECONDS
) -> dict[Range, Sequence[Message]]:
    """Return the records of ranges of different partitions.

    Raise the error of the first range that cannot be read, or a retryable SourceError if one of them gets no record for
    this number of seconds.
    """
    parts = {place_of(range_): _Part(range_, patience) for range_ in ranges}
    client = consumer_of(properties)
    _assign(client, list(parts.values()))
    try:
        while left := [part for part in parts.values() if not part.is_done]:
            found = _by_place(consumed(client, sum(part.wanted for part in left), WAIT_SECONDS))
            for part in left:
                part.add([*found.get(part.place, ()), *found.get(None, ())])
            waiting = [part for part in left if not part.is_done]
            if early := [part.range for part in waiting if part.progress.ends_early()]:
                require_topics(properties, early)
            # All are asked: each answers once, and a new connection is new for all of them.
            if [part for part in waiting if part.progress.is_stuck()]:
                client = renewed(properties, client)
                _assign(client, waiting)
            elif found and not any(part.place in found for part in waiting):
                # A partition that is done has many more records, which fill the consumer's queue.
                _assign(client, waiting)
    finally:
        client.unassign()
    return {part.range: part.records for part in parts.values()}


@dataclass(slots=True)
class _Part:
    """One of the ranges that are fetched together."""

    range: Range
    patience: float
    place: Place = field(init=False)
    position: int = field(init=False)
    progress: RangeProgress = field(init=False)
    records: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.place, self.position = place_of(self.range), int(self.range.start)
        self.progress = RangeProgress(*self.place, int(self.range.end), self.patience)

    @property
    def is_done(self) -> bool:
        return self.progress.done(self.position)

    @property
    def wanted(self) -> int:
        return self.progress.end - self.position

    def add(self, messages: Sequence[Message]) -> None:
        records = self.progress.records(messages, self.position)
        if records:
            self.records += records
            self.position = records[-1].offset() + 1


def _assign(client: Consumer, parts: Sequence[_Part]) -> None:
    client.assign([TopicPartition(*part.place, part.position) for part in parts])


def _by_place(found: Sequence[Message]) -> Mapping[Place | None, list[Message]]:
    """Return messages by their partition. Errors of the connection have no partition."""
    messages: defaultdict[Place | None, list[Message]] = defaultdict(list)
    for message in found:
        topic = message.topic()
        messages[None if topic is None else (topic, message.partition())].append(message)
    return dict(messages)


def _groups(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Yield ranges that follow each other, of different partitions, as far as their records are few."""
    group: dict[Place, Range] = {}
    records, size = 0, 0.0
    for range_ in ranges:
        place, count = place_of(range_), int(range_.end) - int(range_.start)
        bytes_ = count * mean_size(place[0])
        if group and (place in group or records + count > MOST_RECORDS or size + bytes_ > MOST_BYTES):
            yield from _several(group)
            group, records, size = {}, 0, 0.0
        group[place] = range_
        records, size = records + count, size + bytes_
    yield from _several(group)


def _several(group: Mapping[Place, Range]) -> Iterator[list[Range]]:
    if len(group) > 1:
        yield list(group.values())
