"""Reading of one range of a Kafka partition: exactly its records, in order, in chunks of bounded size."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from penstock.formats.change import Messages
from penstock.ingest.fetched_messages import Extra, FetchedMessages
from penstock.ingest.kafka.broker_errors import PATIENCE_SECONDS, is_unknown_topic, patiently, stopped
from penstock.ingest.kafka.client import REQUEST_SECONDS, consumed, consumer
from penstock.ingest.kafka.cluster import place_of
from penstock.ingest.kafka.planned_topics import require_topics
from penstock.ingest.kafka.range_progress import RangeProgress
from penstock.ingest.source import Range
from penstock.ingest.source_waits import ended_by_a_stop

log = logging.getLogger(__name__)

CHUNK_ROWS = 20_000
CHUNK_BYTES = 32 << 20
# A topic whose record size is unknown begins with this number of records, so that large ones do not fill the
# memory.
_FIRST_CHUNK = 500
_SAMPLE_CHUNK = 20
_KEYS_MEASURED = 20  # of a chunk
WAIT_SECONDS = 0.1

# Connections are kept for the life of a worker; records they have prefetched are discarded.
_consumers: dict[tuple[tuple[str, str], ...], Consumer] = {}
# The mean size of the latest records with their keys, by topic. With it a range need not begin with small chunks, which
# would dominate the time of a job with many tables.
_sizes: dict[str, float] = {}


def read_range(
    properties: Mapping[str, str],
    range_: Range,
    *,
    extras: Collection[Extra] = (),
    rows: int = CHUNK_ROWS,
    size: int = CHUNK_BYTES,
    patience: float = PATIENCE_SECONDS,
    accept_gap: bool = False,
) -> Generator[FetchedMessages, None, None]:
    """Yield the records of [start, end) in chunks. Offsets may have gaps, from transactions and log compaction.

    If the broker has dropped the beginning of the range, PositionLost is raised; with `accept_gap` the range begins at
    the first record left. While brokers are unreachable it waits at most `patience` seconds without a record, then
    raises a retryable SourceError. Holds one chunk in memory.
    """
    topic, partition = place_of(range_)
    position, end = int(range_.start), int(range_.end)
    reading = RangeProgress(topic, partition, end, patience, accept_gap=accept_gap)
    client = consumer_of(properties)
    if accept_gap:
        position = _first_left(client, topic, partition, position)
    client.assign([TopicPartition(topic, partition, position)])
    wanted = _most(rows, size, _sizes[topic]) if topic in _sizes else min(rows, _FIRST_CHUNK)
    try:
        while not reading.done(position):
            # `consume` waits for the whole time unless it gets the number of records, so no more are requested than
            # the range has.
            found = consumed(client, min(wanted, end - position), WAIT_SECONDS)
            records = reading.records(found, position)
            if not records:
                if reading.deleted is not None:
                    position = _past_deleted(client, reading, position)
                    client.assign([TopicPartition(topic, partition, position)])
                elif reading.ends_early():
                    require_topics(properties, [range_], accept_gap=accept_gap)
                elif reading.is_stuck():
                    client = renewed(properties, client)
                    client.assign([TopicPartition(topic, partition, position)])
                continue
            position = records[-1].offset() + 1
            fetched = fetched_messages(topic, partition, records, extras)
            # The number grows in steps, because the mean of a few records may differ much from that of the following
            # records.
            wanted = min(_most(rows, size, _sizes[topic]), 4 * wanted)
            yield fetched
    finally:
        # The consumer stays open for the next range. Without this it would keep fetching records that are not read
        # by anything.
        client.unassign()


def mean_size(topic: str) -> float:
    """Return the mean size of the latest records of a topic with their keys, a large one if it is not known."""
    return _sizes.get(topic, CHUNK_BYTES / _FIRST_CHUNK)


def sampled_size(properties: Mapping[str, str], sample: Range, most: int) -> float:
    """Return the mean size of the records of a small range with their keys; 0 without records.

    The batch fetches them again. So with large records it ends at the first chunk that exceeds `most` bytes.
    """
    topic, count, size = place_of(sample)[0], 0, 0.0
    with closing(read_range(properties, sample, rows=_SAMPLE_CHUNK)) as chunks:
        for fetched in chunks:
            records = len(fetched.messages.values)
            count, size = count + records, size + records * mean_size(topic)
            if size >= most:
                break
    return size / count if count else 0.0


def _most(rows: int, size: int, bytes_per_row: float) -> int:
    """Return how many records of this mean size a chunk may have."""
    return int(max(1, min(rows, size / max(bytes_per_row, 1))))


def _past_deleted(client: Consumer, reading: RangeProgress, position: int) -> int:
    """Return the first record that is left after a position whose record was deleted while the range was read."""
    deleted, reading.deleted = reading.deleted, None
    first = _first_left(client, reading.topic, reading.partition, position)
    if deleted is not None and first == position:
        raise deleted
    return first


def _first_left(client: Consumer, topic: str, partition: int, position: int) -> int:
    def ask() -> int:
        try:
            place = TopicPartition(topic, partition)
            first, _ = ended_by_a_stop(lambda: client.get_watermark_offsets(place, timeout=REQUEST_SECONDS), stopped)
        except KafkaException as error:
            # The client does not ask again by itself for a partition that was added since it learned of the topic.
            if is_unknown_topic(error.args[0]):
                client.list_topics(topic, timeout=REQUEST_SECONDS)
            raise
        return int(first)

    first = patiently(ask)
    if first > position:
        log.warning("event=gap_accepted topic=%s partition=%d from=%d to=%d", topic, partition, position, first)
    return max(position, first)


def fetched_messages(
    topic: str, partition: int, records: Sequence[Message], extras: Collection[Extra]
) -> FetchedMessages:
    """Return records of a partition as a chunk, and remember their mean size."""
    count = len(records)
    values = list(map(Message.value, records))
    size = sum(map(len, filter(None, values)))
    _sizes[topic] = size / count + _mean_key(records)
    times = list(map(Message.timestamp, records)) if "timestamp" in extras else None
    return FetchedMessages(
        topic,
        partition,
        Messages(
            values=values,
            offsets=np.fromiter(map(Message.offset, records), np.int64, count),
            keys=list(map(Message.key, records)) if "key" in extras else None,
            timestamps=None if times is None else np.fromiter((millis for _, millis in times), np.int64, count),
        ),
        size,
        headers=list(map(Message.headers, records)) if "headers" in extras else None,
        timestamp_types=None if times is None else [kind for kind, _ in times],
    )


def _mean_key(records: Sequence[Message]) -> float:
    """Return about the mean size of the keys. Each is a copy, so only some are looked at."""
    keys = list(map(Message.key, records[:: -(-len(records) // _KEYS_MEASURED)]))
    return sum(map(len, filter(None, keys))) / len(keys)


def _name(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(properties.items()))


def consumer_of(properties: Mapping[str, str]) -> Consumer:
    """Return the consumer of this process for these properties."""
    key = _name(properties)
    if key not in _consumers:
        _consumers[key] = consumer(properties)
    return _consumers[key]


def renewed(properties: Mapping[str, str], silent: Consumer) -> Consumer:
    """Return a new consumer instead of one that does not answer."""
    log.warning("event=kafka_reconnect reason=silence")
    # Removed before it is closed, so that a close that fails does not leave the silent consumer in use.
    del _consumers[_name(properties)]
    silent.close()
    return consumer_of(properties)
