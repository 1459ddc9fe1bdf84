"""One range of a Pulsar partition as chunks of bounded size, which contain exactly its messages in order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import pulsar
from _pulsar import Message

from penstock.formats.change import Messages
from penstock.ingest.fetched_messages import Extra, FetchedMessages
from penstock.ingest.patience import patience_seconds
from penstock.ingest.pulsar.errors import PATIENCE_SECONDS, MessagesDamaged, broker_error
from penstock.ingest.pulsar.ids import EntryIds
from penstock.ingest.pulsar.partition_reader import EntryChunk, PartitionReader
from penstock.ingest.pulsar.position import Position
from penstock.ingest.pulsar.settings import PulsarSettings
from penstock.ingest.pulsar.topics import place_of
from penstock.ingest.source import Range

CHUNK_ROWS = 20_000
CHUNK_BYTES = 32 << 20


def read_range(
    settings: PulsarSettings,
    range_: Range,
    *,
    rows: int = CHUNK_ROWS,
    size: int = CHUNK_BYTES,
    patience: float | None = None,
) -> Iterator[FetchedMessages]:
    """Yield the messages after the start of the range, up to and including its end, in chunks.

    If the message at the start or at the end is gone, PositionLost is raised, unless the settings accept a gap: the
    range then has the messages that are left. While brokers are unreachable it waits at most `patience` seconds without
    a message, then raises a retryable SourceError. Holds one chunk in memory.
    """
    place, start, end = place_of(range_.place), Position.of(range_.start), Position.of(range_.end)
    waiting = patience_seconds(PATIENCE_SECONDS) if patience is None else patience
    reading = PartitionReader(settings, place, start, end, waiting)
    try:
        count = 0
        while not reading.done:
            try:
                found = reading.chunk(rows, size)
            except MessagesDamaged:
                if not reading.begins_again():
                    raise
                continue
            if reading.goes_back(found):
                continue
            if found.messages:
                yield _fetched(place, found, count, settings.extras)
                count += len(found.messages)
    except pulsar.PulsarException as error:
        raise broker_error(error, settings.service_url, topic=range_.place) from error
    finally:
        reading.close()


def last_message(settings: PulsarSettings, range_: Range) -> FetchedMessages | None:
    """Return the message at the start of a range, None if there was none when the start was recorded.

    PositionLost if it is gone; None if the settings accept a gap.
    """
    start = Position.of(range_.start)
    if not start.is_message:
        return None
    first = Position.before(*(start.first_chunk or (start.ledger, start.entry)))
    last = None
    for fetched in read_range(settings, replace(range_, start=str(first), end=range_.start)):
        last = fetched.part(len(fetched.messages) - 1, len(fetched.messages))
    return last if last is not None and is_at(last, start) else None


def is_at(fetched: FetchedMessages, position: Position) -> bool:
    """Return whether the last of these messages has this position."""
    assert fetched.ids is not None
    return Position.of(fetched.ids[len(fetched.ids) - 1]) == position


def _fetched(place: tuple[str, int], chunk: EntryChunk, before: int, extras: Collection[Extra]) -> FetchedMessages:
    messages, count = chunk.messages, len(chunk.messages)
    # A message without a value is empty. No format has empty messages, so both are tombstones.
    values = [value or None for value in map(Message.data, messages)]
    times = None
    if "timestamp" in extras:
        times = np.fromiter(map(Message.publish_timestamp, messages), np.int64, count)
    return FetchedMessages(
        place[0],
        place[1],
        Messages(
            values=values,
            offsets=np.arange(before, before + count, dtype=np.int64),
            keys=[_key(message) for message in messages] if "key" in extras else None,
            timestamps=times,
        ),
        sum(map(len, filter(None, values))),
        headers=[_headers(message) for message in messages] if "headers" in extras else None,
        timestamp_types=None if times is None else [1] * count,  # the producer's time, as Kafka's CreateTime
        ids=EntryIds(tuple(chunk.entries), tuple(chunk.firsts), count),
    )


def _key(message: Message) -> bytes | None:
    key = message.partition_key()
    return key.encode() if key else None


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    return [(name, value.encode()) for name, value in message.properties().items()]
