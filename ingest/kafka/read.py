"""Reading of one range of a Kafka partition: exactly its records, in order, in chunks of bounded size."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from penstock.errors import PositionLost, SourceError
from penstock.formats.change import Messages
from penstock.ingest.decoded_source import Extra, FetchedMessages
from penstock.ingest.kafka.broker_errors import PATIENCE_SECONDS, broker_error, is_passing, is_unknown_topic, patiently
from penstock.ingest.kafka.client import REQUEST_SECONDS, consumer
from penstock.ingest.source import Range

log = logging.getLogger(__name__)

CHUNK_ROWS = 20_000
CHUNK_BYTES = 32 << 20
# A topic whose record size is unknown begins with this number of records, so that large ones do not fill the
# memory.
_FIRST_CHUNK = 500
_WAIT_SECONDS = 0.1
# The number of connections tried before patience ends. Rarely, a client stays silent for ever after its broker has
# restarted or a network device has dropped the connection, while a new connection is served at once.
_CONNECTIONS = 5
ACCEPT_GAP = "use --accept-gap to continue without these records"

# Connections are kept for the life of a worker; records they have prefetched are discarded.
_consumers: dict[tuple[tuple[str, str], ...], Consumer] = {}
# The mean size of the latest records, by topic. With it a range need not begin with small chunks, which would dominate
# the time of a job with many tables.
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
) -> Iterator[FetchedMessages]:
    """Yield the records of [start, end) in chunks. Offsets may have gaps, from transactions and log compaction.

    If the broker has dropped the beginning of the range, PositionLost is raised; with `accept_gap` the range begins at
    the first record left. While brokers are unreachable it waits at most `patience` seconds without a record, then
    raises a retryable SourceError. Holds one chunk in memory.
    """
    topic, _, number = range_.place.rpartition("/")
    partition, position, end = int(number), int(range_.start), int(range_.end)
    reading = _Reading(topic, partition, end, patience)
    client = _consumer(properties)
    if accept_gap:
        position = _first_left(client, topic, partition, position)
    client.assign([TopicPartition(topic, partition, position)])
    wanted = _most(rows, size, _sizes[topic]) if topic in _sizes else _FIRST_CHUNK
    try:
        while not reading.done(position):
            # `consume` waits for the whole time unless it gets the number of records, so no more are requested than
            # the range has.
            found = client.consume(min(wanted, end - position), _WAIT_SECONDS)
            records = reading.records(found, position)
            if not records:
                if reading.is_stuck():
                    client = _renewed(properties, client)
                    client.assign([TopicPartition(topic, partition, position)])
                continue
            position = records[-1].offset() + 1
            fetched = _fetched(topic, partition, records, extras)
            _sizes[topic] = fetched.size / len(records)
            # The number grows in steps: the mean of a few records may say little about those that follow.
            wanted = min(_most(rows, size, _sizes[topic]), 4 * wanted)
            yield fetched
    finally:
        # The consumer stays open for the next range. Without this it would keep fetching records that are not read
        # by anything.
        client.unassign()


def _most(rows: int, size: int, each: float) -> int:
    """Return how many records of this mean size a chunk may have."""
    return int(max(1, min(rows, size / max(each, 1))))


def _first_left(client: Consumer, topic: str, partition: int, position: int) -> int:
    def ask() -> int:
        first, _ = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=REQUEST_SECONDS)
        return int(first)

    first = patiently(ask)
    if first > position:
        log.warning("event=gap_accepted topic=%s partition=%d from=%d to=%d", topic, partition, position, first)
    return max(position, first)


class _Reading:
    """The state of reading one range: classifies what the consumer returns as records, ends and errors."""

    def __init__(self, topic: str, partition: int, end: int, patience: float) -> None:
        self.topic, self.partition, self.end = topic, partition, end
        self._patience = patience
        self._until = time.monotonic() + patience
        self._renew_at = self._next_renewal()
        # The offset up to which the partition has no more records to return.
        self._reached = -1
        self._complaint: KafkaError | None = None

    def done(self, position: int) -> bool:
        # The position alone does not reach the end if the last offsets of the range have no records.
        return position >= self.end or self._reached >= self.end

    def is_stuck(self) -> bool:
        """Return, at intervals while no records arrive, True: it is time for a new connection."""
        if time.monotonic() < self._renew_at:
            return False
        self._renew_at = self._next_renewal()
        return True

    def _next_renewal(self) -> float:
        return time.monotonic() + self._patience / _CONNECTIONS

    def records(self, found: Sequence[Message], position: int) -> Sequence[Message]:
        # Usually there are only records, all before the end: this check needs no Python code per record.
        plain = bool(found) and not any(map(Message.error, found)) and found[-1].offset() < self.end
        records = found if plain else [message for message in found if self._is_record(message, position)]
        if records:
            self._until = time.monotonic() + self._patience
            self._renew_at = self._next_renewal()
        elif not self.done(position) and time.monotonic() > self._until:
            raise self._no_records(position)
        return records

    def _is_record(self, message: Message, position: int) -> bool:
        error = message.error()
        if error is not None:
            self._judge(error, message, position)
        elif message.offset() < self.end:
            return True
        else:
            self._reached = message.offset()
        return False

    def _judge(self, error: KafkaError, message: Message, position: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._reached = message.offset()
        elif error.code() in (
            KafkaError._AUTO_OFFSET_RESET,
            KafkaError.OFFSET_OUT_OF_RANGE,
            KafkaError._LOG_TRUNCATION,
        ):
            raise PositionLost(
                "the Kafka broker deleted records before they were read",
                topic=self.topic,
                partition=self.partition,
                offset=position,
                hint=f"{ACCEPT_GAP}; increase retention.ms to prevent this",
            )
        elif is_passing(error) or is_unknown_topic(error):
            self._complaint = error
        else:
            raise broker_error(error, topic=self.topic, partition=self.partition, offset=position)

    def _no_records(self, position: int) -> SourceError:
        reason = f": {self._complaint.str()}" if self._complaint else ""
        kind, what = SourceError, f"no records from Kafka for {self._patience:g} s{reason}"
        # The broker did answer, and its partition ends before `end`: a new leader has fewer records than the one at
        # planning.
        if self._reached >= 0:
            kind, what = PositionLost, "the Kafka partition ends before the planned end of the batch"
        return kind(
            what,
            topic=self.topic,
            partition=self.partition,
            offset=position,
            end=self.end,
            retryable=kind is SourceError,
        )


def _fetched(topic: str, partition: int, records: Sequence[Message], extras: Collection[Extra]) -> FetchedMessages:
    count = len(records)
    values = list(map(Message.value, records))
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
        sum(map(len, filter(None, values))),
        headers=list(map(Message.headers, records)) if "headers" in extras else None,
        timestamp_types=None if times is None else [kind for kind, _ in times],
    )


def _name(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(properties.items()))


def _consumer(properties: Mapping[str, str]) -> Consumer:
    key = _name(properties)
    if key not in _consumers:
        _consumers[key] = consumer(properties)
    return _consumers[key]


def _renewed(properties: Mapping[str, str], silent: Consumer) -> Consumer:
    log.warning("event=kafka_reconnect reason=silence")
    # Removed before it is closed, so that a close that fails does not leave the silent consumer in use.
    del _consumers[_name(properties)]
    silent.close()
    return _consumer(properties)
